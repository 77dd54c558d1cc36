/* What a model is made of, and one sentence under way: what it remembers, and where.

   The hypotheses of a sentence share what they have in common. A step's keys and values stay where they were written, and each
   hypothesis knows where its own stand; as soon as all have the same at a position, it joins the trunk, where it is packed and
   looked at by all together. So beside the trunk there is room for a few positions only. */

#pragma once

#include <stdlib.h>

#include "attention.h"
#include "beam.h"
#include "products.h"

typedef struct {
    norm self_norm, cross_norm, feed_forward_norm;
    product qkv; /* of a recurrent decoder: the candidate's panels, then the forget gate's */
    product out, cross_q, cross_out, up, down; /* gated: the gate's panels stand before those of `up` */
} layer;

typedef struct {
    const float *table;     /* of the embedding */
    const float *positions; /* added to it; or NULL */
    const float *bias;      /* of the distances -(length - 1) to length - 1, for each head; or NULL */
    norm embedding_norm, final_norm;
    const layer *layers;
    int32_t n_layers;
} stack;

typedef struct {
    int32_t d_model, heads, d_head, d_ff, vocab_size, bos, norm_first, activation, gated, recurrent;
    int32_t length;                    /* positions that the tables below and of the stacks have */
    float eps, scale;                  /* of norms, of attention's scores */
    float embedding_scale, output_scale;
    const float *cos, *sin;            /* of rotary positions; or NULL */
    stack encoder, decoder;
    product cross_kv; /* every decoder layer's keys and values of the source, in one matrix */
    product output;
} model;

static int whole(int size) { return (size + PANEL - 1) / PANEL * PANEL; }

/* One sentence under way. */
typedef struct {
    int32_t source, limit, width; /* its tokens; the most that its target may have; the most hypotheses at once */
    int32_t length, rows;         /* of the target so far; growing hypotheses */
    int32_t common;               /* positions of the target that are in the trunk */
    int32_t turns;                /* positions behind them that there is room for, in turns */
    int32_t source_room, limit_room;
    size_t slots_room, own_room;  /* hypotheses times positions */
    float *cross;                 /* keys and values of its source, packed, layer after layer */
    float *trunk;                 /* the same of its target, as far as all hypotheses have it in common */
    float *own;                   /* and what they do not: layer, turn, slot, (key, value); or cells, which have no trunk */
    uint16_t *slots, *spare;      /* for each hypothesis and position, the slot where it is written */
    search search;                /* unless somebody else decides what comes next */
} sentence;

/* From one key to the next: a key, its value, and a little more. Without it the same column of many keys would compete for
   one place in the cache. */
static int key_stride(const model *m) {
    int pair = 2 * m->heads * m->d_head, cell = m->recurrent ? whole(m->d_model) : 0;
    return (pair > cell ? pair : cell) + 16;
}

static ptrdiff_t packed_size(const model *m, int positions) { return blocks_of(positions) * block_size(m->heads * m->d_head); }

static float *cross_of(const model *m, const sentence *s, int layer) { return s->cross + layer * packed_size(m, s->source); }

static float *trunk_of(const model *m, const sentence *s, int layer) { return s->trunk + layer * packed_size(m, s->limit); }

static float *own_of(const model *m, const sentence *s, int layer, int position, int slot) {
    return s->own + (((ptrdiff_t)layer * s->turns + position % s->turns) * s->width + slot) * key_stride(m);
}

/* Whether there is one hypothesis only, ever: then all of it is trunk. */
static int alone(const model *m, const sentence *s) { return s->width == 1 && !m->recurrent; }

static void forget(sentence *s) {
    if (!s) return;
    search_free(&s->search);
    free(s->cross), free(s->trunk), free(s->own), free(s->slots), free(s->spare), free(s);
}

/* Room for more positions beside the trunk; those that are there move along. 0 if there is no memory. */
static int widen(const model *m, sentence *s, int turns) {
    sentence wider = *s;
    size_t pair = sizeof(float) * key_stride(m);
    wider.turns = turns, wider.own_room = (size_t)turns * s->width;
    wider.own = malloc(pair * wider.own_room * m->decoder.n_layers);
    if (!wider.own) return 0;
    for (int l = 0; l < m->decoder.n_layers; l++)
        for (int j = s->common; j < s->length; j++)
            memcpy(own_of(m, &wider, l, j, 0), own_of(m, s, l, j, 0), pair * s->width);
    free(s->own);
    *s = wider;
    return 1;
}

/* Before a step: what all hypotheses have in common joins the trunk, and there is room for one position more. */
static int settle(const model *m, sentence *s) {
    if (alone(m, s)) return 1;
    if (m->recurrent) s->common = s->length ? s->length - 1 : 0; /* a cell holds all that came before */
    for (; !m->recurrent && s->common < s->length; s->common++) {
        int slot = s->slots[s->common], r = 1;
        while (r < s->rows && s->slots[r * s->limit + s->common] == slot) r++;
        if (r < s->rows) break;
        for (int l = 0; l < m->decoder.n_layers; l++)
            pack(m->heads * m->d_head, own_of(m, s, l, s->common, slot), s->common, trunk_of(m, s, l));
    }
    if (s->length + 1 - s->common <= s->turns) return 1;
    return widen(m, s, 2 * s->turns < s->limit ? 2 * s->turns : s->limit);
}

#define TURNS 16 /* positions beside the trunk that there is room for at first */

/* A sentence with nothing written yet, in the memory of one that is over if that is enough. */
static sentence *begin(const model *m, sentence *old, int source, int limit, int width) {
    size_t slots = (size_t)limit * width, layers = sizeof(float) * m->decoder.n_layers;
    if (old && (old->source_room < source || old->limit_room < limit || old->slots_room < slots)) forget(old), old = NULL;
    sentence *s = old ? old : calloc(1, sizeof(sentence));
    if (!s) return NULL;
    if (!old) {
        s->source_room = source, s->limit_room = limit, s->slots_room = slots;
        s->cross = malloc(layers * packed_size(m, source));
        s->trunk = m->recurrent ? NULL : malloc(layers * packed_size(m, limit)); /* pages that are not written are not there */
        s->slots = malloc(sizeof(uint16_t) * slots);
        s->spare = malloc(sizeof(uint16_t) * slots);
    }
    s->source = source, s->limit = limit, s->width = width, s->rows = 1, s->length = s->common = 0;
    s->turns = s->own_room / width;
    int whole = s->cross && (s->trunk || m->recurrent) && s->slots && s->spare;
    if (whole && (alone(m, s) || s->turns >= TURNS || widen(m, s, TURNS))) return s;
    forget(s);
    return NULL;
}
