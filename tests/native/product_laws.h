/* Laws of a single product in bfloat16: bitwise the stated sum on every processor, and within the stated bound. */

#pragma once

#include "random_model.h"

/* One number of a product's result, and how far it may be from x W + b: 2^-7 of the sum of the terms' sizes, since rounding
   changes each factor by at most 2^-8 of itself, and what a float32 sum of as many terms may lose. */
static void check_sum(const random_model *r, const product *p, const float *x, int output, float y) {
    float strength = r->strength / sqrtf((float)p->inputs), sum = p->bias[output];
    double exact_sum = sum, sizes = 0;
    for (int i = 0; i < p->inputs; i += 2)
        for (int k = i + 1; k >= i; k--) { /* of each pair the odd one first */
            float w = k < p->inputs ? number_at(r->array, output, k) * strength : 0, factor = k < p->inputs ? x[k] : 0;
            sum = fmaf(bfloat16_of(factor), bfloat16_of(w), sum);
            exact_sum += (double)factor * w, sizes += fabs((double)factor * w);
        }
    double lost = (p->inputs + 1) * 0x1p-24, share = lost / (1 - lost);
    CHECK(y == sum);
    CHECK(fabs(y - exact_sum) <= 0x1p-7 * sizes + share * (1.01 * sizes + fabsf(p->bias[output])));
}

static void product_laws(choices *c) {
    random_model r = {.precision = BFLOAT16, .strength = 2, .array = mixed((uint64_t)chosen_byte(c))};
    int inputs = one_in(c, 8) ? between(c, 2 * DEPTH - 5, 2 * DEPTH + 90) : between(c, 1, 90), count = between(c, 1, 60);
    int outputs = between(c, 1, 90), stride = whole_panels(inputs);
    product p = product_of(&r, inputs, 1, outputs, 0);
    float *x = exact(sizeof(float) * count * inputs), *y = exact(sizeof(float) * count * p.outputs);
    float *scratch = exact(sizeof(float) * count * (stride + 2)); /* no larger than batch_step has it */
    for (int i = 0; i < count * inputs; i++) x[i] = 3 * number_at(r.array + 1, 0, i);
    multiply(&p, count, x, inputs, y, p.outputs, scratch);
    for (int i = 0; i < count; i++)
        for (int o = 0; o < outputs; o++) check_sum(&r, &p, x + i * inputs, o, y[i * p.outputs + o]);
    free(x), free(y), free(scratch);
    for (int i = 0; i < r.n_blocks; i++) free(r.blocks[i]);
}
