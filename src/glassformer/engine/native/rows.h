/* Operations on a single row: norms, activations, softmax, the most likely tokens.

   What is not finite becomes NaN and stays NaN up to the logits, where it is noticed: no operation may turn it into an
   ordinary number, as max(NaN, 0), e^(-inf) or 1 / sqrt(inf) would. */

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
    float variance = sum(squares) / size + eps, factor = variance < INFINITY ? 1.0f / sqrtf(variance) : NAN;
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
        store(y + i, larger(c, all(0)) + check(c) + check(load(g + i)));
    }
}

INLINE floats activated(enum activation kind, floats x) {
    switch (kind) {
    case RELU: return larger(x, all(0)) + check(x);
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
    for (int i = 0; i < count; i += WIDTH) {
        floats part = load(x + i);
        best = larger(part, best);
        total += check(count - i < WIDTH ? filled(part, count - i, 0) : part);
    }
    float top = largest(best);
    for (int i = 0; i < count; i += WIDTH) {
        floats y = exponential(load(x + i) - top);
        total += y;
        store(x + i, y);
    }
    float factor = 1.0f / sum(total);
    for (int i = 0; i < count; i += WIDTH) store(x + i, load(x + i) * factor);
}

/* log of the sum of e^x; NaN if any x is not finite. */
static float log_sum(int size, const float *x) {
    floats best = all(-INFINITY), total = {0};
    int i = 0;
    for (; i + WIDTH <= size; i += WIDTH) best = larger(load(x + i), best), total += check(load(x + i));
    if (i < size) best = larger(part_of(x, i, size, -INFINITY), best), total += check(part_of(x, i, size, 0));
    float top = largest(best);
    for (i = 0; i < size; i += WIDTH) total += exponential(part_of(x, i, size, -INFINITY) - top);
    return top + logf(sum(total));
}

/* A logit as a log-probability; rounding may push it above 0. */
INLINE float log_p_of(float logit, float log_sum) {
    float log_p = logit - log_sum;
    return log_p > 0 ? 0 : log_p;
}

/* The `count` largest values and their tokens, largest first; the first of equals. x[i] belongs to the token list[i], or i
   if `list` is NULL. Excluded are the tokens that are set in `never`, unless that is NULL, and `excluded`, unless that is
   negative. */
static void largest_of(int size, const float *x, const int32_t *list, const uint8_t *never, int excluded, int count,
                       float *values, int32_t *tokens) {
    for (int k = 0; k < count; k++) values[k] = -INFINITY, tokens[k] = 0;
    float bar = -INFINITY; /* the smallest of them, which a new value must exceed */
    for (int i = 0; i < size; i += WIDTH) {
        if (!any(part_of(x, i, size, -INFINITY) > all(bar))) continue;
        for (int j = i; j < i + WIDTH && j < size; j++) {
            if (!(x[j] > bar)) continue;
            int token = list ? list[j] : j, k = count - 1;
            if ((never && never[token]) || token == excluded) continue;
            for (; k > 0 && x[j] > values[k - 1]; k--) values[k] = values[k - 1], tokens[k] = tokens[k - 1];
            values[k] = x[j], tokens[k] = token;
            bar = values[count - 1];
        }
    }
}
