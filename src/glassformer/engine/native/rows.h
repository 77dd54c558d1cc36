/* Operations on a single row: norms, activations, softmax, the most likely tokens. */

#pragma once

#include "vectors.h"

enum activation { RELU, GELU, GELU_TANH, SILU };

typedef struct {
    const float *weight; /* in whole panels; NULL: no norm */
    const float *bias;   /* NULL: RMSNorm, which does not subtract the mean */
} norm;

/* A vector of a row, with `fill` beyond the end of the row. */
INLINE floats part_of(const float *x, int from, int size, float fill) {
    return size - from < WIDTH ? load_part(x + from, size - from, fill) : load(x + from);
}

/* In place or not; the row is padded with zeros to a whole vector. */
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

/* x += y; touches up to one vector beyond the end. */
static void add(int size, float *x, const float *y) {
    for (int i = 0; i < size; i += WIDTH) store(x + i, load(x + i) + load(y + i));
}

/* One step of an SSRU: the new cell, c = f c + (1 - f) x with f = 1 / (1 + e^-g), and its output, relu(c). */
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

/* In place; `size` is a multiple of WIDTH. The result is multiplied by `gated`, if given. */
static void activate(enum activation kind, int size, float *x, const float *gated) {
    for (int i = 0; i < size; i += WIDTH) {
        floats y = activated(kind, load(x + i));
        if (gated) y *= load(gated + i);
        store(x + i, y);
    }
}

/* Rotates the pairs of columns (i, i + size/2) by the angles of a position, in place. */
static void rotate(int size, float *x, const float *cos, const float *sin) {
    for (int i = 0, half = size / 2; i < half; i++) {
        float left = x[i], right = x[i + half];
        x[i] = left * cos[i] - right * sin[i];
        x[i + half] = right * cos[i + half] + left * sin[i + half];
    }
}

/* softmax in place, e^(x - max) / sum; x must be padded with -inf to a whole vector. */
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

/* log of the sum of e^x; NaN if any x is NaN. */
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

/* A logit as a log-probability; rounding may push it above 0. */
INLINE float log_p_of(float logit, float log_sum) {
    float log_p = logit - log_sum;
    return log_p > 0 ? 0 : log_p;
}

static int among(int32_t one, int count, const int32_t *these) {
    for (int i = 0; i < count; i++)
        if (these[i] == one) return 1;
    return 0;
}

/* The `count` largest values and their indices, largest first, excluding `never`; the first of equals. */
static void largest_of(int size, const float *x, int n_never, const int32_t *never, int count, float *values,
                       int32_t *places) {
    for (int k = 0; k < count; k++) values[k] = -INFINITY, places[k] = 0;
    float bar = -INFINITY; /* the smallest of them, which a new value must exceed */
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
