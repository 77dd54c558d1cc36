/* What happens to one row at a time: norms, activations, softmax, one query's attention, the likeliest tokens. */

#pragma once

#include "vectors.h"

enum activation { RELU, GELU, GELU_TANH, SILU };

typedef struct {
    const float *weight; /* in whole panels; NULL: there is no such norm */
    const float *bias;   /* NULL: the root mean square kind, which takes no mean off */
} norm;

/* Part of a row that may end within it; behind its end stands `fill`. */
INLINE floats part_of(const float *x, int from, int size, float fill) {
    return size - from < WIDTH ? load_part(x + from, size - from, fill) : load(x + from);
}

/* In place or not; behind the end of the row zeros are written, up to a whole vector. */
static void normalise(const norm *by, float eps, int size, const float *x, float *y) {
    floats total = {0}, squares = {0};
    float mean = 0;
    if (by->bias) {
        for (int i = 0; i < size; i += WIDTH) total += part_of(x, i, size, 0);
        mean = sum(total) / size;
    }
    for (int i = 0; i < size; i += WIDTH) {
        floats d = part_of(x, i, size, mean) - mean;
        squares += d * d;
    }
    float factor = 1.0f / sqrtf(sum(squares) / size + eps);
    for (int i = 0; i < size; i += WIDTH) {
        floats z = (part_of(x, i, size, mean) - mean) * factor * load(by->weight + i);
        if (by->bias) z += load(by->bias + i);
        store(y + i, z);
    }
}

/* x += y, and a vector more at most. */
static void add(int size, float *x, const float *y) {
    for (int i = 0; i < size; i += WIDTH) store(x + i, load(x + i) + load(y + i));
}

/* A recurrent unit's step: the new cell, c = f c + (1 - f) x with f = 1 / (1 + e^-g), and what goes on of it, relu(c). */
static void recur(int size, const float *x, const float *g, const float *past, float *cell, float *y) {
    for (int i = 0; i < size; i += WIDTH) {
        floats forget = 1.0f / (1.0f + exponential(-load(g + i)));
        floats c = (1.0f - forget) * load(x + i);
        if (past) c += forget * load(past + i);
        store(cell + i, c);
        store(y + i, larger(c, all(0)));
    }
}

INLINE floats activated(enum activation kind, floats x) {
    switch (kind) {
    case RELU: return larger(x, all(0));
    case GELU: return 0.5f * x * (1.0f + error_function(x * 0.70710678118655f));
    case GELU_TANH: { /* tanh u = 1 - 2 / (e^2u + 1) */
        floats u = 0.79788456080287f * (x + 0.044715f * x * x * x);
        return x * (1.0f - 1.0f / (exponential(2.0f * u) + 1.0f));
    }
    case SILU: return x / (1.0f + exponential(-x));
    }
    return x;
}

/* In place; `size` is a whole number of vectors. What is `gated`, if anything, is multiplied by it. */
static void activate(enum activation kind, int size, float *x, const float *gated) {
    for (int i = 0; i < size; i += WIDTH) {
        floats y = activated(kind, load(x + i));
        if (gated) y *= load(gated + i);
        store(x + i, y);
    }
}

/* Turn the pairs of columns (i, i + size/2) by the angles of a position, in place. */
static void turn(int size, float *x, const float *cos, const float *sin) {
    for (int i = 0, half = size / 2; i < half; i++) {
        float left = x[i], right = x[i + half];
        x[i] = left * cos[i] - right * sin[i];
        x[i + half] = right * cos[i + half] + left * sin[i + half];
    }
}

/* e^(x - the largest) in place, divided by their sum; behind the last stands -inf, up to a whole vector. */
static void softmax(int count, float *x) {
    floats best = all(-INFINITY), total = {0};
    for (int i = 0; i < count; i += WIDTH) best = larger(load(x + i), best);
    float top = largest(best);
    for (int i = 0; i < count; i += WIDTH) {
        floats y = exponential(load(x + i) - top);
        total += y;
        store(x + i, y);
    }
    float factor = 1.0f / sum(total);
    for (int i = 0; i < count; i += WIDTH) store(x + i, load(x + i) * factor);
}

/* q k of up to WIDTH keys, times the scale, and -inf where there is none; keys stand `from` floats behind `at`. */
INLINE floats compared(int size, float scale, const float *q, int count, const float *const *at, int from) {
    floats total[WIDTH];
    for (int j = 0; j < WIDTH; j++) {
        total[j] = all(0);
        if (j >= count) continue;
        const float *k = at[j] + from;
        int i = 0;
        for (; i + WIDTH <= size; i += WIDTH) total[j] += load(q + i) * load(k + i);
        if (i < size) total[j] += load_part(q + i, size - i, 0) * load_part(k + i, size - i, 0);
    }
    return filled(sums(total) * scale, count, -INFINITY);
}

/* Add to `out` the `vectors` vectors that stand `from` floats behind each of `at`, each times its weight. */
INLINE void weighted(int vectors, int count, const float *weights, const float *const *at, int from, float *out) {
    floats total[4];
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) total[v] = load(out + v * WIDTH);
    for (int j = 0; j < count; j++)
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) total[v] += weights[j] * load(at[j] + from + v * WIDTH);
    _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) store(out + v * WIDTH, total[v]);
}

/* Bring up to WIDTH rows near, while something else is done. */
INLINE void ask_for_rows(const float *const *at, int count, int from, int size) {
    for (int j = 0; j < count && j < WIDTH; j++)
        for (int i = 0; i < size; i += 16) __builtin_prefetch(at[j] + from + i, 0, 3);
}

#define QUERIES 8 /* that look at keys together, at most */

/* What queries look at. Keys stand at `at`, each with its value behind it: a key's heads one after another, then the value's. */
typedef struct {
    int heads, size; /* of each */
    float scale;
    int count; /* keys */
    const float *const *at;
    int at_step;           /* from one query's keys to the next's: 0 if all look at the same */
    const float *bias;     /* of the first key and head; or NULL */
    int bias_step;         /* from one query's to the next's */
    ptrdiff_t bias_stride; /* from one head's to the next's */
    float *scores;         /* room for QUERIES, for each head of them `stride` floats: a vector more than `count` */
    int stride;
} keys;

/* softmax(scale q k + bias) v for every head of up to QUERIES queries. A few keys at a time, for all heads and queries: keys
   stand far apart and may be many, and only so much stays near the processor. */
static void attend(const keys *k, int queries, const float *q, ptrdiff_t q_stride, float *context, ptrdiff_t context_stride) {
    int heads = k->heads, size = k->size, inner = heads * size;
    for (int first = 0; first < k->count; first += WIDTH) {
        int few = k->count - first < WIDTH ? k->count - first : WIDTH;
        ask_for_rows(k->at + first + WIDTH, k->count - first - WIDTH, 0, inner);
        for (int r = 0; r < queries; r++)
            for (int h = 0; h < heads; h++)
                store(k->scores + (r * heads + h) * k->stride + first,
                      compared(size, k->scale, q + r * q_stride + h * size, few, k->at + r * k->at_step + first, h * size));
    }
    for (int r = 0; r < queries; r++) {
        for (int h = 0; h < heads; h++) {
            float *own = k->scores + (r * heads + h) * k->stride;
            const float *bias = k->bias ? k->bias + r * k->bias_step + h * k->bias_stride : NULL;
            for (int j = 0; bias && j < k->count; j += WIDTH) store(own + j, load(own + j) + part_of(bias, j, k->count, 0));
            softmax(k->count, own);
        }
        memset(context + r * context_stride, 0, sizeof(float) * inner);
    }
    for (int first = 0; first < k->count; first += WIDTH) {
        int few = k->count - first < WIDTH ? k->count - first : WIDTH;
        ask_for_rows(k->at + first + WIDTH, k->count - first - WIDTH, inner, inner);
        for (int r = 0; r < queries; r++) {
            const float *const *here = k->at + r * k->at_step + first;
            for (int h = 0; h < heads; h++) {
                const float *own = k->scores + (r * heads + h) * k->stride + first;
                float *out = context + r * context_stride + h * size;
                int i = 0, from = inner + h * size;
                for (; i + 4 * WIDTH <= size; i += 4 * WIDTH) weighted(4, few, own, here, from + i, out + i);
                for (; i + 2 * WIDTH <= size; i += 2 * WIDTH) weighted(2, few, own, here, from + i, out + i);
                for (; i + WIDTH <= size; i += WIDTH) weighted(1, few, own, here, from + i, out + i);
                for (; i < size; i++)
                    for (int j = 0; j < few; j++) out[i] += own[j] * here[j][from + i];
            }
        }
    }
}

/* log of the sum of e^x; not a number if any x is none. */
static float log_sum(int size, const float *x) {
    floats best = all(-INFINITY), total = {0};
    ints wrong = {0};
    for (int i = 0; i < size; i += WIDTH) {
        floats part = part_of(x, i, size, -INFINITY);
        best = larger(part, best);
        wrong |= part != part;
    }
    if (any(wrong)) return NAN;
    float top = largest(best);
    if (isinf(top)) return top;
    for (int i = 0; i < size; i += WIDTH) total += exponential(part_of(x, i, size, -INFINITY) - top);
    return top + logf(sum(total));
}

/* A logit as a log-probability; rounding may lift a certainty above 0. */
INLINE float log_p_of(float logit, float log_sum) {
    float log_p = logit - log_sum;
    return log_p > 0 ? 0 : log_p;
}

static int among(int32_t one, int count, const int32_t *these) {
    for (int i = 0; i < count; i++)
        if (these[i] == one) return 1;
    return 0;
}

/* The `count` largest and their places, largest first, none of `never` among them; of equals, the first. */
static void largest_of(int size, const float *x, int n_never, const int32_t *never, int count, float *values,
                       int32_t *places) {
    for (int k = 0; k < count; k++) values[k] = -INFINITY, places[k] = 0;
    float bar = -INFINITY; /* what the last of them must be beaten by */
    for (int i = 0; i < size; i += WIDTH) {
        if (!any(part_of(x, i, size, -INFINITY) > all(bar))) continue;
        for (int j = i; j < i + WIDTH && j < size; j++) {
            if (!(x[j] > bar) || among(j, n_never, never)) continue;
            int k = count - 1;
            for (; k > 0 && x[j] > values[k - 1]; k--) values[k] = values[k - 1], places[k] = places[k - 1];
            values[k] = x[j], places[k] = j;
            bar = values[count - 1];
        }
    }
}
