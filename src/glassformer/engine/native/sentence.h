/* The model's structures, and one running sentence with its KV cache.

   The hypotheses of a sentence share the cache entries that they have in common. A step's keys and values stay where they
   were written, and each hypothesis has a list of the slots of its own. After WIDTH steps they are packed into a block,
   once for all hypotheses that share them, and their slots are reused. So nothing is copied when several hypotheses
   continue from one. */

#pragma once

#if defined(__linux__)
#define _GNU_SOURCE /* for large pages; must precede all system headers */
#include <sys/mman.h>
#endif
#include <stdlib.h>
#if defined(_WIN32)
#include <malloc.h>
#define aligned_alloc(alignment, size) _aligned_malloc(size, alignment)
#define aligned_free _aligned_free
#else
#define aligned_free free
#endif

#include "attention.h"
#include "beam.h"
#include "products.h"

typedef struct {
    norm self_norm, cross_norm, feed_forward_norm;
    product qkv; /* SSRU decoder: the candidate's panels, then the forget gate's */
    product out, cross_q, cross_out, up, down; /* gated: the gate's panels precede those of `up` */
} layer;

typedef struct {
    const float *table;     /* embedding */
    const float *positions; /* added to the embedding, or NULL */
    const float *bias;      /* on the scores: per head, of the distances -(length - 1) to length - 1; or NULL */
    ptrdiff_t bias_stride;  /* from one layer's bias to the next; 0 if they share one */
    norm embedding_norm, final_norm;
    const layer *layers;
    int32_t n_layers;
} stack;

typedef struct {
    int32_t d_model, heads, d_head, d_ff, vocab_size, bos, norm_first, activation, gated, recurrent;
    int32_t length;                    /* positions in the tables below and in the stacks */
    float eps, scale;                  /* of the norms; of the attention scores */
    float embedding_scale, output_scale;
    const float *cos, *sin;            /* of rotary positions, or NULL */
    stack encoder, decoder;
    product cross_kv; /* cross-attention keys and values of all decoder layers, in one matrix */
    product output;
} model;

static int whole_panels(int size) { return (size + PANEL - 1) / PANEL * PANEL; }

/* One running sentence. */
typedef struct {
    int32_t source, limit, width; /* source tokens; target tokens at most; hypotheses at most */
    int32_t length, rows;         /* of the target so far; unfinished hypotheses */
    size_t cross_bytes, packed_bytes, single_bytes, slots_bytes;
    float *cross;  /* keys and values of the source, layer by layer: whole blocks, then single pairs */
    float *packed; /* blocks of the target: layer, block, slot */
    float *single; /* the newest pairs of the target (SSRU: cells): layer, position % WIDTH, slot */
    uint16_t *slots, *spare; /* per hypothesis: the slots of its newest WIDTH pairs, then of its blocks */
    int32_t *list, *columns; /* shortlist.h: the tokens that it may use, sorted, and their columns in its group */
    int32_t list_size, list_capacity, group; /* size 0: all tokens */
    search search;           /* unused if the search runs in Python */
    int32_t n_heads, *heads; /* cross-attention heads whose weights are recorded: layer, head, layer, head, ... */
    int32_t heads_capacity;
    size_t attention_capacity;
    float *attention; /* these weights: position, hypothesis, head, source token */
} sentence;

/* Floats from one pair to the next: a key, its value, and padding. Without the padding the same column of many keys would
   map to one set of the processor's cache. */
static int pair_stride(const model *m) {
    int pair = 2 * m->heads * m->d_head, cell = m->recurrent ? whole_panels(m->d_model) : 0;
    return (pair > cell ? pair : cell) + 16;
}

/* Floats for this many positions of a layer. */
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

/* Slots per hypothesis. */
static ptrdiff_t n_slots(const sentence *s) { return WIDTH + s->limit / WIDTH; }

#define LARGE_PAGE ((size_t)2 << 20)

/* Memory in large pages where available: data read sequentially again and again needs fewer address translations. A
   large page becomes resident as a whole once a byte of it is written. */
static void *large_pages(size_t size) {
    size = (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    void *pages = aligned_alloc(LARGE_PAGE, size);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (pages) madvise(pages, size, MADV_HUGEPAGE);
#endif
    return pages;
}

/* A buffer that is reused by later calls and grows on demand. */
typedef struct {
    size_t size;
    char *at;
} memory;

/* Divides the buffer into consecutive parts of these sizes; 0 if memory is exhausted. */
static int parts_of(memory *all, int count, const size_t *sizes, void **parts) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += (sizes[i] + 127) / 64 * 64;
    if (total > all->size) {
        aligned_free(all->at);
        all->at = aligned_alloc(64, total);
        all->size = all->at ? total : 0;
        if (!all->at) return 0;
    }
    char *at = all->at;
    for (int i = 0; i < count; i++) parts[i] = at, at += (sizes[i] + 127) / 64 * 64;
    return 1;
}

static void sentence_free(sentence *s) {
    if (!s) return;
    search_free(&s->search);
    free(s->heads), free(s->attention), free(s->list), free(s->columns);
    free(s->cross), aligned_free(s->packed), free(s->single), free(s->slots), free(s->spare), free(s);
}

/* A new sentence, reusing the memory of a finished one if that is large enough. */
static sentence *sentence_begin(const model *m, sentence *old, int source, int limit, int width) {
    size_t layers = sizeof(float) * m->decoder.n_layers, blocks = m->recurrent ? 0 : limit / WIDTH;
    size_t cross = layers * positions_size(m, source), packed = layers * blocks * width * block_size(m->heads * m->d_head);
    size_t single = layers * WIDTH * width * pair_stride(m), slots = sizeof(uint16_t) * width * (WIDTH + limit / WIDTH);
    if (old && (old->cross_bytes < cross || old->packed_bytes < packed || old->single_bytes < single ||
                old->slots_bytes < slots))
        sentence_free(old), old = NULL;
    sentence *s = old ? old : calloc(1, sizeof(sentence));
    if (!s) return NULL;
    if (!old) {
        s->cross_bytes = cross, s->packed_bytes = packed, s->single_bytes = single, s->slots_bytes = slots;
        s->cross = malloc(cross), s->single = malloc(single), s->slots = malloc(slots), s->spare = malloc(slots);
        /* Pages that are never written take no memory; large pages only where the unused rest of the last is negligible. */
        s->packed = packed < 4 * LARGE_PAGE ? aligned_alloc(64, (packed + 64) / 64 * 64) : large_pages(packed);
    }
    s->source = source, s->limit = limit, s->width = width, s->rows = 1, s->length = 0;
    s->n_heads = s->list_size = 0;
    if (s->cross && s->packed && s->single && s->slots && s->spare) return s;
    sentence_free(s);
    return NULL;
}

/* The first hypothesis with the same newest pairs as r: r itself, or one before it. */
static int same_as(const sentence *s, int r) {
    int first = 0;
    while (memcmp(s->slots + first * n_slots(s), s->slots + r * n_slots(s), sizeof(uint16_t) * WIDTH)) first++;
    return first;
}

/* Before a step: WIDTH single positions are packed into a block, and the slots of the next position are assigned. */
static void prepare_step(const model *m, sentence *s) {
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

/* Continues with these hypotheses; one may occur several times. */
static void keep_rows(sentence *s, int rows, const int32_t *from, int before) {
    for (int r = 0; r < rows; r++)
        memcpy(s->spare + r * n_slots(s), s->slots + (from[r] - before) * n_slots(s),
               sizeof(uint16_t) * (WIDTH + s->length / WIDTH));
    uint16_t *slots = s->slots;
    s->slots = s->spare, s->spare = slots, s->rows = rows;
}

/* Floats of recorded attention per hypothesis and position. */
static size_t attention_size(const sentence *s) { return (size_t)s->n_heads * s->source; }

/* Memory for the recorded attention of this many positions; 0 if memory is exhausted. */
static int reserve_attention(sentence *s, int positions) {
    size_t needed = attention_size(s) * s->width * positions;
    if (needed <= s->attention_capacity) return 1;
    if (needed < 2 * s->attention_capacity) needed = 2 * s->attention_capacity;
    float *more = realloc(s->attention, sizeof(float) * needed);
    if (!more) return 0;
    s->attention = more, s->attention_capacity = needed;
    return 1;
}

/* The recorded weights of a hypothesis at a position. */
static float *attention_of(const sentence *s, int position, int row) {
    return s->attention + ((size_t)position * s->width + row) * attention_size(s);
}

/* Records the weights that `queries` rows from `first` on have just attended with. */
static void record_attention(sentence *s, int layer, int first, int queries, const keys *k) {
    for (int i = 0; i < s->n_heads; i++) {
        if (s->heads[2 * i] != layer) continue;
        const float *weights = k->scores + (ptrdiff_t)s->heads[2 * i + 1] * k->stride;
        for (int q = 0; q < queries; q++, weights += (ptrdiff_t)k->heads * k->stride)
            memcpy(attention_of(s, s->length, first + q) + (size_t)i * s->source, weights, sizeof(float) * s->source);
    }
}
