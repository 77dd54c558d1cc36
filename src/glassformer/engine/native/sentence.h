/* What a model is made of, and one sentence under way: what it remembers, and where.

   The hypotheses of a sentence share what they have in common. A step's keys and values stay where they were written, and each
   hypothesis knows where its own stand. After WIDTH steps they are packed, once for all hypotheses that have the same; their
   places are then free for the next. So nothing is copied when several hypotheses go on from one. */

#pragma once

#if defined(__linux__)
#define _GNU_SOURCE /* for large pages; it must come before anything else of the system's */
#include <sys/mman.h>
#endif
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
    size_t cross_room, packed_room, single_room, slots_room;
    float *cross;  /* keys and values of its source, layer after layer: whole blocks, then those that stand one by one */
    float *packed; /* of its target: layer, block, slot */
    float *single; /* the newest of its target: layer, position % WIDTH, slot; or cells */
    uint16_t *slots, *spare; /* for each hypothesis where the newest stand, WIDTH of them, then its blocks */
    search search;           /* unless somebody else decides what comes next */
} sentence;

/* From one pair to the next: a key, its value, and a little more. Without it the same column of many keys would compete for
   one place in the cache. */
static int pair_stride(const model *m) {
    int pair = 2 * m->heads * m->d_head, cell = m->recurrent ? whole(m->d_model) : 0;
    return (pair > cell ? pair : cell) + 16;
}

/* Floats that so many positions of a layer take. */
static ptrdiff_t positions_size(const model *m, int positions) {
    return positions / WIDTH * block_size(m->heads * m->d_head) + (ptrdiff_t)(positions % WIDTH) * pair_stride(m);
}

static float *cross_of(const model *m, const sentence *s, int layer) { return s->cross + layer * positions_size(m, s->source); }

static float *packed_of(const model *m, const sentence *s, int layer, int block, int slot) {
    return s->packed + (((ptrdiff_t)layer * (s->limit / WIDTH) + block) * s->width + slot) * block_size(m->heads * m->d_head);
}

static float *single_of(const model *m, const sentence *s, int layer, int position, int slot) {
    return s->single + (((ptrdiff_t)layer * WIDTH + position % WIDTH) * s->width + slot) * pair_stride(m);
}

/* Slots that a hypothesis has. */
static int n_slots(const sentence *s) { return WIDTH + s->limit / WIDTH; }

#define LARGE_PAGE ((size_t)2 << 20)

/* Memory in large pages where the system has them: what is read from front to back again and again needs fewer addresses
   looked up. A large page is there as a whole once a byte of it is written. */
static void *large_pages(size_t size) {
    size = (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *room = aligned_alloc(LARGE_PAGE, size);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (room) madvise(room, size, MADV_HUGEPAGE);
#endif
    return room;
}

static void forget(sentence *s) {
    if (!s) return;
    search_free(&s->search);
    free(s->cross), free(s->packed), free(s->single), free(s->slots), free(s->spare), free(s);
}

/* A sentence with nothing written yet, in the memory of one that is over if that is enough. */
static sentence *begin(const model *m, sentence *old, int source, int limit, int width) {
    size_t layers = sizeof(float) * m->decoder.n_layers, blocks = m->recurrent ? 0 : limit / WIDTH;
    size_t cross = layers * positions_size(m, source), packed = layers * blocks * width * block_size(m->heads * m->d_head);
    size_t single = layers * WIDTH * width * pair_stride(m), slots = sizeof(uint16_t) * width * (WIDTH + limit / WIDTH);
    if (old && (old->cross_room < cross || old->packed_room < packed || old->single_room < single || old->slots_room < slots))
        forget(old), old = NULL;
    sentence *s = old ? old : calloc(1, sizeof(sentence));
    if (!s) return NULL;
    if (!old) {
        s->cross_room = cross, s->packed_room = packed, s->single_room = single, s->slots_room = slots;
        s->cross = malloc(cross), s->single = malloc(single), s->slots = malloc(slots), s->spare = malloc(slots);
        /* Pages that are never written are never there; large ones only where what is too much of the last does not count. */
        s->packed = packed < 4 * LARGE_PAGE ? malloc(packed ? packed : 1) : large_pages(packed);
    }
    s->source = source, s->limit = limit, s->width = width, s->rows = 1, s->length = 0;
    if (s->cross && s->packed && s->single && s->slots && s->spare) return s;
    forget(s);
    return NULL;
}

/* The first hypothesis whose newest keys are those of r: r itself, or one before it. */
static int same_as(const sentence *s, int r) {
    int first = 0;
    while (memcmp(s->slots + first * n_slots(s), s->slots + r * n_slots(s), sizeof(uint16_t) * WIDTH)) first++;
    return first;
}

/* Before a step: WIDTH positions that stand one by one become a block; and where the next ones will stand is written down. */
static void settle(const model *m, sentence *s) {
    int block = s->length / WIDTH - 1;
    if (!m->recurrent && s->length && s->length % WIDTH == 0)
        for (int r = 0; r < s->rows; r++) {
            uint16_t *slots = s->slots + r * n_slots(s);
            int first = same_as(s, r);
            slots[WIDTH + block] = (uint16_t)first;
            for (int l = 0; l < m->decoder.n_layers && first == r; l++) {
                const float *pairs[WIDTH];
                for (int j = 0; j < WIDTH; j++) pairs[j] = single_of(m, s, l, j, slots[j]);
                pack(m->heads, m->d_head, pairs, packed_of(m, s, l, block, r));
            }
        }
    for (int r = 0; r < s->rows; r++) s->slots[r * n_slots(s) + s->length % WIDTH] = (uint16_t)r;
}

/* Go on with these hypotheses; one may come several times. */
static void go_on(sentence *s, int rows, const int32_t *from, int before) {
    for (int r = 0; r < rows; r++)
        memcpy(s->spare + r * n_slots(s), s->slots + (from[r] - before) * n_slots(s),
               sizeof(uint16_t) * (WIDTH + s->length / WIDTH));
    uint16_t *slots = s->slots;
    s->slots = s->spare, s->spare = slots, s->rows = rows;
}
