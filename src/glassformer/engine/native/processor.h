/* What the processor and its system can run. Only the library for the baseline is asked: it runs everywhere. */

#pragma once

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Whether the library for this instruction set of engine/instruction_sets.py can be run here. */
int runs(const char *instruction_set) {
#if defined(__x86_64__)
    unsigned eax, ebx, ecx = 0, edx;
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
    if (!strcmp(instruction_set, "avx2")) return avx2;
    if (!strcmp(instruction_set, "avx512")) return avx512;
    if (!strcmp(instruction_set, "avx512-bf16")) return avx512 && __builtin_cpu_supports("avx512bf16");
    return !strcmp(instruction_set, "x86-64");
#elif defined(__aarch64__)
    return !strcmp(instruction_set, "neon");
#else
    return 0;
#endif
}
