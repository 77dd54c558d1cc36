/* Random models of odd shapes for the C engine, with every array in a block of exactly its size, so that AddressSanitizer
   notices any access beyond it. The numbers are the same on every processor. */

#pragma once

#include <stdio.h>

#include "transformer.c"

#define CHECK(law) \
    if (!(law)) fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #law), abort()

/* Decisions: from the bytes of a fuzzer, then zeros; or, without bytes, from a seed. */
typedef struct {
    const uint8_t *at, *end;
    uint64_t seed;
} choices;

static uint64_t mixed(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u, x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int chosen_byte(choices *c) {
    if (c->end) return c->at < c->end ? *c->at++ : 0;
    return (int)(mixed(c->seed++) >> 56);
}

static int between(choices *c, int low, int high) {
    int range = high - low + 1, value = chosen_byte(c);
    if (range > 256) value = value << 8 | chosen_byte(c);
    return low + value % range;
}

/* Rarely, and never after the last byte. */
static int one_in(choices *c, int count) { return between(c, 0, count - 1) == count - 1; }

/* Memory of exactly this size, which never fails. */
static void *exact(size_t size) {
    void *at = (malloc)(size ? size : 1);
    CHECK(at);
    return at;
}

/* The j-th number of the i-th row of an array, from -1 to 1. */
static float number_at(uint64_t array, int64_t i, int64_t j) {
    return (float)((int32_t)(mixed(array + mixed((uint64_t)i << 32 ^ (uint64_t)j)) >> 40) - (1 << 23)) / (1 << 23);
}

enum { MAX_BLOCKS = 512, MAX_SUBLAYERS = 3 };

typedef struct {
    model m;                  /* without the tables that depend on the length: see with_tables */
    int source_vocab, eos;
    int precision, rotary, positions, biases; /* biases: 0, one for all layers (1), one for each (2) */
    float strength;           /* of the weights: large ones make the logits infinite */
    int norm_bias;
    uint64_t array;           /* number of the newest array */
    void *blocks[MAX_BLOCKS]; /* everything to free */
    int n_blocks;
} random_model;

static void *owned(random_model *r, size_t size) {
    CHECK(r->n_blocks < MAX_BLOCKS);
    return r->blocks[r->n_blocks++] = exact(size);
}

/* Numbers around `middle`, followed by zeros up to `size`. */
static const float *row_of(random_model *r, int count, int size, float middle) {
    float *row = owned(r, sizeof(float) * size);
    r->array++;
    for (int i = 0; i < size; i++) row[i] = i < count ? middle + 0.5f * number_at(r->array, 0, i) : 0;
    return row;
}

static const float *table_of(random_model *r, int rows, int columns) {
    float *table = owned(r, sizeof(float) * rows * columns);
    r->array++;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) table[(size_t)i * columns + j] = number_at(r->array, i, j);
    return table;
}

static norm norm_of(random_model *r) {
    int size = whole_panels(r->m.d_model);
    const float *weight = row_of(r, r->m.d_model, size, 1);
    return (norm){weight, r->norm_bias ? row_of(r, r->m.d_model, size, 0) : NULL};
}

/* Of a number from -1 to 1, a half about `scale` as large: written as bits, since not every compiler has the type. */
static uint16_t half_of(float x, float scale) {
    int exponent;
    float fraction = frexpf(x * scale, &exponent); /* from 0.5 to 1 */
    if (exponent < -13 || fraction == 0) return 0;
    return (uint16_t)((fraction < 0) << 15 | (exponent + 14) << 10 | ((int)(fabsf(fraction) * 2048) & 1023));
}

/* The nearest number of bfloat16, the even one of two. */
static float bfloat16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    memcpy(&x, &bits, 4);
    return x;
}

/* `parts` matrices of `size` outputs each as one product, packed as engine/native_weights.py does; if `separate`, each
   starts a new panel. */
static product product_of(random_model *r, int inputs, int parts, int size, int separate) {
    int part_size = separate ? whole_panels(size) : size, outputs = whole_panels(parts * part_size);
    static const int adjacent[] = {1, 1, 2, 4}, widths[] = {4, 2, 2, 1}; /* rows of a column; bytes */
    int group = adjacent[r->precision], depth = (inputs + group - 1) / group * group;
    size_t width = widths[r->precision];
    float strength = r->strength / sqrtf((float)inputs), *bias = owned(r, sizeof(float) * outputs), *scale = NULL;
    int32_t *sums = NULL;
    char *weight = owned(r, width * outputs * depth);
    if (r->precision == INT8) scale = owned(r, sizeof(float) * outputs), sums = owned(r, sizeof(int32_t) * outputs);
    uint64_t array = ++r->array;
    for (int o = 0; o < outputs; o++) {
        int real = o % part_size < size && o < parts * part_size, row = o / part_size * size + o % part_size;
        bias[o] = real ? 0.3f * number_at(array, row, inputs) : 0;
        if (scale) scale[o] = strength / 127, sums[o] = 0;
        for (int i = 0; i < depth; i++) {
            float x = real && i < inputs ? number_at(array, row, i) : 0;
            size_t panel = (size_t)(o / PANEL) * PANEL * depth, row_of_group = (size_t)(i / group * group) * PANEL;
            size_t at = panel + row_of_group + o % PANEL * group + i % group;
            if (r->precision == FLOAT32) ((float *)weight)[at] = x * strength;
            if (r->precision == FLOAT16) ((uint16_t *)weight)[at] = half_of(x, strength);
            float rounded = bfloat16_of(x * strength);
            if (r->precision == BFLOAT16) memcpy(weight + 2 * at, (char *)&rounded + 2, 2); /* the upper half */
            if (r->precision != INT8) continue;
            int8_t step = (int8_t)lrintf(x * 127);
            weight[at] = step, sums[o] += 128 * step;
        }
    }
    return (product){r->precision, inputs, outputs, weight, bias, scale, sums};
}

static layer layer_of(random_model *r, int decoder) {
    const model *m = &r->m;
    int inner = m->heads * m->d_head;
    layer l = {.self_norm = norm_of(r), .feed_forward_norm = norm_of(r)};
    if (decoder && m->recurrent) {
        l.qkv = product_of(r, m->d_model, 2, m->d_model, 1);
    } else {
        l.qkv = product_of(r, m->d_model, 3, inner, 0);
        l.out = product_of(r, inner, 1, m->d_model, 0);
    }
    if (decoder) {
        l.cross_norm = norm_of(r);
        l.cross_q = product_of(r, m->d_model, 1, inner, 0);
        l.cross_out = product_of(r, inner, 1, m->d_model, 0);
    }
    l.up = m->gated ? product_of(r, m->d_model, 2, m->d_ff, 1) : product_of(r, m->d_model, 1, m->d_ff, 0);
    l.down = product_of(r, m->d_ff, 1, m->d_model, 0);
    return l;
}

static stack stack_of(random_model *r, choices *c, int decoder) {
    stack s = {.table = table_of(r, decoder ? r->m.vocab_size : r->source_vocab, r->m.d_model)};
    s.n_layers = between(c, 1, MAX_SUBLAYERS);
    if (one_in(c, 3)) s.embedding_norm = norm_of(r);
    if (r->m.norm_first || one_in(c, 3)) s.final_norm = norm_of(r);
    layer *layers = owned(r, sizeof(layer) * s.n_layers);
    for (int i = 0; i < s.n_layers; i++) layers[i] = layer_of(r, decoder);
    s.layers = layers;
    return s;
}

/* A size that is no multiple of anything, seldom larger than the part of a matrix that is processed at once. */
static int odd_size(choices *c, int most) { return one_in(c, 24) ? between(c, DEPTH + 1, DEPTH + 90) : between(c, 1, most); }

static random_model *random_model_new(choices *c, int recurrent, int wild) {
    static const int sizes[] = {32, 64};
    random_model *r = exact(sizeof *r);
    *r = (random_model){.strength = 2, .array = mixed((uint64_t)chosen_byte(c))};
    model *m = &r->m;
    r->precision = between(c, FLOAT32, INT8);
    r->rotary = one_in(c, 3), r->positions = between(c, 0, 1), r->biases = between(c, 0, 2);
    r->norm_bias = between(c, 0, 1);
    if (wild && one_in(c, 16)) r->strength = r->precision == FLOAT16 ? 6e4f : 1e30f;
    m->d_model = odd_size(c, 70), m->d_ff = odd_size(c, 90);
    m->heads = between(c, 1, 4), m->d_head = one_in(c, 4) ? sizes[between(c, 0, 1)] : between(c, 1, 40);
    if (r->rotary) m->d_head += m->d_head % 2;
    m->vocab_size = one_in(c, 16) ? between(c, 3, 1000) : between(c, 3, 90), r->source_vocab = between(c, 1, 90);
    m->bos = between(c, 0, m->vocab_size - 1), r->eos = between(c, 0, m->vocab_size - 1);
    m->norm_first = between(c, 0, 1), m->activation = between(c, RELU, SILU), m->gated = between(c, 0, 1);
    m->recurrent = recurrent < 0 ? one_in(c, 4) : recurrent;
    m->eps = 1e-5f, m->scale = between(c, 0, 1) ? 1 : 1 / sqrtf((float)m->d_head);
    m->embedding_scale = between(c, 0, 1) ? 1 : sqrtf((float)m->d_model), m->output_scale = one_in(c, 4) ? 0.5f : 1;
    m->encoder = stack_of(r, c, 0), m->decoder = stack_of(r, c, 1);
    m->cross_kv = product_of(r, m->d_model, 2 * m->decoder.n_layers, m->heads * m->d_head, 0);
    m->output = product_of(r, m->d_model, 1, m->vocab_size, 0);
    return r;
}

static void random_model_free(random_model *r) {
    for (int i = 0; i < r->n_blocks; i++) free(r->blocks[i]);
    free(r);
}

enum { N_TABLES = 6 };

/* Numbers that depend on their place only, not on the length of the table: rows from `first` on. */
static float *place_table(uint64_t array, int64_t first, int rows, int columns) {
    float *table = exact(sizeof(float) * rows * columns);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) table[(size_t)i * columns + j] = number_at(array, first + i, j);
    return table;
}

/* The model with tables for positions up to `length`, which are in `tables`. */
static model with_tables(const random_model *r, int length, float **tables) {
    model m = r->m;
    uint64_t array = r->array;
    memset(tables, 0, sizeof(float *) * N_TABLES);
    m.length = length;
    if (r->rotary) {
        m.cos = tables[0] = place_table(array + 1, 0, length, m.d_head);
        m.sin = tables[1] = place_table(array + 2, 0, length, m.d_head);
    }
    stack *stacks[] = {&m.encoder, &m.decoder};
    for (int side = 0; side < 2; side++) {
        stack *s = stacks[side];
        if (r->positions) s->positions = tables[2 + side] = place_table(array + 3 + side, 0, length, m.d_model);
        if (!r->biases) continue;
        int distances = 2 * length - 1, kinds = r->biases == 1 ? 1 : s->n_layers;
        float *bias = tables[4 + side] = exact(sizeof(float) * kinds * m.heads * distances);
        for (int kind = 0; kind < kinds * m.heads; kind++)
            for (int i = 0; i < distances; i++)
                bias[(size_t)kind * distances + i] = number_at(array + 5 + side, kind, i - (length - 1));
        s->bias = bias, s->bias_stride = r->biases == 1 ? 0 : (ptrdiff_t)m.heads * distances;
    }
    return m;
}
