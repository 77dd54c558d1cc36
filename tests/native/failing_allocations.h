/* Allocations of the C engine, one of which can be made to fail. Compiled in front of the engine with `-include`.

   New memory is filled with NaN (and slots that do not exist), so that what is read before it is written is noticed. */

#pragma once

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

static _Thread_local long failing, made;
static _Thread_local int for_ever;

/* The allocation of this number fails, counted from 1 and from now on, and all after it if `all`; 0: none fails. */
void fail_allocation(long number, int all) { failing = number, for_ever = all, made = 0; }

long allocations_made(void) { return made; }

static int fails(void) { return made++, failing && (for_ever ? made >= failing : made == failing); }

static void *filled_memory(void *at, size_t size) {
    if (at && size <= 1 << 20) memset(at, 0xff, size);
    return at;
}

static inline void *failing_malloc(size_t size) { return fails() ? NULL : filled_memory(malloc(size), size); }
static inline void *failing_calloc(size_t count, size_t size) { return fails() ? NULL : calloc(count, size); }
static inline void *failing_realloc(void *at, size_t size) { return fails() ? NULL : realloc(at, size); }
static inline void *failing_aligned_alloc(size_t alignment, size_t size) {
    return fails() ? NULL : filled_memory(aligned_alloc(alignment, size), size);
}

/* With arguments, so that (malloc)(size) is the ordinary one. */
#define malloc(size) failing_malloc(size)
#define calloc(count, size) failing_calloc(count, size)
#define realloc(at, size) failing_realloc(at, size)
#define aligned_alloc(alignment, size) failing_aligned_alloc(alignment, size)
