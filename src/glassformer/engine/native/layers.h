/* The layers of the encoder and the decoder, for all rows of a batch at once: sources as a whole, targets by one token. */

#pragma once

#include "shortlist.h"

/* Sentences that are stepped together. */
typedef struct {
    sentence **sentences;
    int32_t count, rows, kept; /* after the `count` running ones, `kept` finished ones whose memory is reused */
    memory work, search_work;  /* buffers of a step and of a search */
    column_groups groups;      /* columns of the output matrix, if the sentences have shortlists */
} batch;

/* The buffers of a call, consecutive in `work`. */
typedef struct {
    float *x, *y, *h, *wide, *scores;
    const float **blocks, **single; /* keys and values of the queries */
    float *packed;                  /* blocks of one sentence, while encoding */
    float *scratch;
    int width, wide_width, scores_stride;
} buffers;

/* `widest`: columns of the widest result other than a layer's; `longest`: keys at most; `packed`: keys to pack. */
static int buffers_for(const model *m, batch *b, int rows, int widest, int longest, int packed, buffers *all) {
    int inner = m->heads * m->d_head;
    all->width = whole_panels(m->d_model > inner ? m->d_model : inner);
    int wide = whole_panels(3 * inner), cells = m->recurrent ? 2 * whole_panels(m->d_model) : 0;
    int hidden = (m->gated ? 2 : 1) * whole_panels(m->d_ff);
    all->wide_width = wide > hidden ? wide : hidden;
    if (cells > all->wide_width) all->wide_width = cells;
    if (widest > all->wide_width) all->wide_width = widest;
    int deepest = all->wide_width > all->width ? all->wide_width : all->width;
    int blocks = longest / WIDTH;
    all->scores_stride = (blocks + 2) * WIDTH;
    size_t sizes[] = {
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->width,
        sizeof(float) * rows * all->wide_width,
        sizeof(float) * QUERIES * m->heads * all->scores_stride,
        sizeof(float *) * QUERIES * blocks,
        sizeof(float *) * QUERIES * WIDTH,
        sizeof(float) * (packed / WIDTH) * block_size(inner),
        sizeof(float) * rows * ((size_t)deepest + 2),
    };
    void *at[9];
    if (!parts_of(&b->work, 9, sizes, at)) return 0;
    all->x = at[0], all->y = at[1], all->h = at[2], all->wide = at[3];
    all->scores = at[4], all->blocks = at[5], all->single = at[6], all->packed = at[7], all->scratch = at[8];
    return 1;
}

static void embed(const model *m, const stack *s, int token, int position, float *x) {
    const float *row = s->table + (ptrdiff_t)token * m->d_model;
    const float *place = s->positions ? s->positions + (ptrdiff_t)position * m->d_model : NULL;
    for (int i = 0; i < m->d_model; i++) x[i] = row[i] * m->embedding_scale + (place ? place[i] : 0);
    for (int i = m->d_model; i < whole_panels(m->d_model); i++) x[i] = 0;
    if (s->embedding_norm.weight) normalise(&s->embedding_norm, m->eps, m->d_model, x, x);
}

/* The input of a sub-layer: all rows, normalised in a pre-norm model. */
static const float *before(const model *m, const norm *by, int rows, const buffers *w) {
    if (!m->norm_first) return w->x;
    for (int i = 0; i < rows; i++)
        normalise(by, m->eps, m->d_model, w->x + (ptrdiff_t)i * w->width, w->h + (ptrdiff_t)i * w->width);
    return w->h;
}

/* The output of a sub-layer: x + y, normalised in a post-norm model. */
static void after(const model *m, const norm *by, int rows, const buffers *w) {
    for (int i = 0; i < rows; i++) {
        float *x = w->x + (ptrdiff_t)i * w->width;
        add(m->d_model, x, w->y + (ptrdiff_t)i * w->width);
        if (!m->norm_first) normalise(by, m->eps, m->d_model, x, x);
    }
}

static void finish(const model *m, const stack *s, int rows, const buffers *w) {
    if (s->final_norm.weight)
        for (int i = 0; i < rows; i++)
            normalise(&s->final_norm, m->eps, m->d_model, w->x + (ptrdiff_t)i * w->width, w->x + (ptrdiff_t)i * w->width);
}

static void rotate_heads(const model *m, int position, float *x) {
    if (!m->cos) return;
    ptrdiff_t row = (ptrdiff_t)position * m->d_head;
    for (int h = 0; h < m->heads; h++) rotate(m->d_head, x + h * m->d_head, m->cos + row, m->sin + row);
}

/* The keys at w->blocks and w->single, shared by all queries unless changed. */
static keys shared_keys(const model *m, int n_blocks, int n_single, const buffers *w) {
    return (keys){.heads = m->heads, .size = m->d_head, .scale = m->scale, .n_blocks = n_blocks, .n_single = n_single,
                  .blocks = w->blocks, .single = w->single, .scores = w->scores, .stride = w->scores_stride};
}

/* Sets the bias of a query at `position`, and of those after it, for keys from 0 on. */
static void bias_of(const model *m, const stack *s, int layer, int position, int step, keys *k) {
    k->bias = s->bias + layer * s->bias_stride + m->length - 1 - position;
    k->bias_step = step, k->bias_stride = 2 * (ptrdiff_t)m->length - 1;
}

static void feed_forward(const model *m, const layer *l, int rows, const buffers *w) {
    const float *h = before(m, &l->feed_forward_norm, rows, w);
    multiply(&l->up, rows, h, w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, hidden = whole_panels(m->d_ff); i < rows; i++) {
        float *row = w->wide + (ptrdiff_t)i * w->wide_width;
        activate(m->activation, hidden, row, m->gated ? row + hidden : NULL);
    }
    multiply(&l->down, rows, w->wide, w->wide_width, w->y, w->width, w->scratch);
    after(m, &l->feed_forward_norm, rows, w);
}

/* Encodes n sources, concatenated in `ids`, with these lengths; the encoder output is left in w->x. */
static void encode(const model *m, int n, const int32_t *lengths, const int32_t *ids, int rows, const buffers *w) {
    const stack *s = &m->encoder;
    int inner = m->heads * m->d_head;
    for (int i = 0, row = 0; i < n; row += lengths[i++])
        for (int j = 0; j < lengths[i]; j++) embed(m, s, ids[row + j], j, w->x + (ptrdiff_t)(row + j) * w->width);
    for (int number = 0; number < s->n_layers; number++) {
        const layer *l = s->layers + number;
        const float *h = before(m, &l->self_norm, rows, w);
        multiply(&l->qkv, rows, h, w->width, w->wide, w->wide_width, w->scratch);
        for (int i = 0, row = 0; i < n; row += lengths[i++]) {
            int n_blocks = lengths[i] / WIDTH;
            for (int j = 0; j < lengths[i]; j++) {
                float *qkv = w->wide + (ptrdiff_t)(row + j) * w->wide_width;
                rotate_heads(m, j, qkv);
                rotate_heads(m, j, qkv + inner);
                w->single[j % WIDTH] = qkv + inner;
                if (j % WIDTH < WIDTH - 1) continue;
                float *block = w->packed + j / WIDTH * block_size(inner);
                pack(m->heads, m->d_head, w->single, block);
                w->blocks[j / WIDTH] = block;
            }
            keys k = shared_keys(m, n_blocks, lengths[i] % WIDTH, w);
            for (int j = 0; j < lengths[i]; j += QUERIES) {
                if (s->bias) bias_of(m, s, number, j, -1, &k);
                attend(&k, lengths[i] - j < QUERIES ? lengths[i] - j : QUERIES, w->wide + (ptrdiff_t)(row + j) * w->wide_width,
                       w->wide_width, w->h + (ptrdiff_t)(row + j) * w->width, w->width);
            }
        }
        multiply(&l->out, rows, w->h, w->width, w->y, w->width, w->scratch);
        after(m, &l->self_norm, rows, w);
        feed_forward(m, l, rows, w);
    }
    finish(m, s, rows, w);
}

/* Self-attention of every hypothesis to its target so far; the result is left in w->y. */
static void self_attention(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const stack *d = &m->decoder;
    const layer *l = d->layers + number;
    int inner = m->heads * m->d_head;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        keys k = shared_keys(m, s->length / WIDTH, s->length % WIDTH + 1, w);
        k.per_query = 1;
        if (d->bias) bias_of(m, d, number, s->length, 0, &k);
        for (int r = 0; r < s->rows; r++) {
            float *qkv = w->wide + (ptrdiff_t)(row + r) * w->wide_width;
            rotate_heads(m, s->length, qkv);
            rotate_heads(m, s->length, qkv + inner);
            memcpy(single_of(m, s, number, s->length, r), qkv + inner, sizeof(float) * 2 * inner);
        }
        for (int r = 0; r < s->rows; r += QUERIES) {
            int queries = s->rows - r < QUERIES ? s->rows - r : QUERIES;
            for (int q = 0; q < queries; q++) {
                const uint16_t *slots = s->slots + (r + q) * n_slots(s);
                for (int j = 0; j < k.n_blocks; j++) w->blocks[q * k.n_blocks + j] = packed_of(m, s, number, j, slots[WIDTH + j]);
                for (int j = 0; j < k.n_single; j++) w->single[q * k.n_single + j] = single_of(m, s, number, j, slots[j]);
            }
            attend(&k, queries, w->wide + (ptrdiff_t)(row + r) * w->wide_width, w->wide_width,
                   w->h + (ptrdiff_t)(row + r) * w->width, w->width);
        }
        row += s->rows;
    }
    multiply(&l->out, rows, w->h, w->width, w->y, w->width, w->scratch);
}

/* The same for an SSRU decoder, which keeps one vector per layer: each hypothesis continues from its parent's cell. */
static void recurrence(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const layer *l = m->decoder.layers + number;
    multiply(&l->qkv, rows, before(m, &l->self_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        for (int r = 0; r < s->rows; r++, row++) {
            const float *candidate = w->wide + (ptrdiff_t)row * w->wide_width, *past = NULL;
            if (s->length)
                past = single_of(m, s, number, s->length - 1, s->slots[r * n_slots(s) + (s->length - 1) % WIDTH]);
            recur(m->d_model, candidate, candidate + whole_panels(m->d_model), past, single_of(m, s, number, s->length, r),
                  w->y + (ptrdiff_t)row * w->width);
        }
    }
}

/* Attention of every row to its source; the result is left in w->y. */
static void cross_attention(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w) {
    const layer *l = m->decoder.layers + number;
    int inner = m->heads * m->d_head;
    multiply(&l->cross_q, rows, before(m, &l->cross_norm, rows, w), w->width, w->wide, w->wide_width, w->scratch);
    for (int i = 0, row = 0; i < n; i++) {
        sentence *s = sentences[i];
        keys k = shared_keys(m, s->source / WIDTH, s->source % WIDTH, w);
        const float *cross = cross_of(m, s, number), *single = cross + k.n_blocks * block_size(inner);
        for (int j = 0; j < k.n_blocks; j++) w->blocks[j] = cross + j * block_size(inner);
        for (int j = 0; j < k.n_single; j++) w->single[j] = single + (ptrdiff_t)j * pair_stride(m);
        for (int r = 0; r < s->rows; r += QUERIES) {
            int queries = s->rows - r < QUERIES ? s->rows - r : QUERIES;
            attend(&k, queries, w->wide + (ptrdiff_t)(row + r) * w->wide_width, w->wide_width,
                   w->h + (ptrdiff_t)(row + r) * w->width, w->width);
            if (s->n_heads) record_attention(s, number, r, queries, &k);
        }
        row += s->rows;
    }
    multiply(&l->cross_out, rows, w->h, w->width, w->y, w->width, w->scratch);
}

/* The first sub-layer of a decoder layer, from w->x to w->y. */
typedef void self_sublayer(const model *m, int number, sentence **sentences, int n, int rows, const buffers *w);

/* All decoder layers, from the embeddings in w->x to the input of the output product. */
static void decode(const model *m, self_sublayer *self, sentence **sentences, int n, int rows, const buffers *w) {
    for (int number = 0; number < m->decoder.n_layers; number++) {
        const layer *l = m->decoder.layers + number;
        self(m, number, sentences, n, rows, w);
        after(m, &l->self_norm, rows, w);
        cross_attention(m, number, sentences, n, rows, w);
        after(m, &l->cross_norm, rows, w);
        feed_forward(m, l, rows, w);
    }
    finish(m, &m->decoder, rows, w);
    if (m->output_scale != 1)
        for (ptrdiff_t i = 0; i < (ptrdiff_t)rows * w->width; i++) w->x[i] *= m->output_scale;
}
