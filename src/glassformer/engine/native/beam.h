/* Beam search for one sentence, as decoding/beam.py writes it to be read: the same choices, to the last bit. */

#pragma once

#include <stdlib.h>

#include "rows.h"

/* What is asked of every sentence. */
typedef struct {
    int32_t eos, width, n_best, keep_greedy;
    int32_t looked_at; /* candidates of each hypothesis */
    int32_t n_never;
    const int32_t *never; /* tokens that are never written */
    double length_penalty;
} beam;

/* The newest token of a target under way, and the way back to its start. */
typedef struct {
    int32_t parent, token;
    float log_p;
} node;

typedef struct {
    int32_t node; /* -1 for the start */
    int32_t greedy;
    double total;
} growing;

typedef struct {
    int32_t node, length;
    double score;
} ended;

typedef struct {
    double loss;
    int32_t row, rank, token;
    float log_p;
} child;

/* One sentence's search under way. */
typedef struct {
    int32_t number, shortest, limit, n_prefix, n_nodes, n_growing, n_best;
    int32_t room_nodes, room_growing, room_best, room_prefix;
    int32_t *prefix;
    node *nodes;
    growing *now, *next;
    ended *best;
} search;

static double penalised(double total, int length, double penalty) { return total / pow(length, penalty); }

static void search_free(search *s) { free(s->prefix), free(s->nodes), free(s->now), free(s->next), free(s->best); }

/* More memory if there is not enough; 0 if there is none. */
static int enough(void **at, int32_t *room, int needed, size_t size) {
    if (*at && *room >= needed) return 1;
    void *more = realloc(*at, size * needed);
    if (!more) return 0;
    *at = more, *room = needed;
    return 1;
}

static int search_begin(search *s, const beam *how, int number, int shortest, int limit, int n_prefix, const int32_t *prefix) {
    int32_t room_next = s->room_growing;
    if (!enough((void **)&s->prefix, &s->room_prefix, n_prefix + 1, sizeof(int32_t)) ||
        !enough((void **)&s->nodes, &s->room_nodes, 64, sizeof(node)) ||
        !enough((void **)&s->next, &room_next, how->width, sizeof(growing)) ||
        !enough((void **)&s->now, &s->room_growing, how->width, sizeof(growing)) ||
        !enough((void **)&s->best, &s->room_best, how->n_best + 1, sizeof(ended)))
        return 0;
    s->number = number, s->shortest = shortest, s->limit = limit, s->n_prefix = n_prefix;
    memcpy(s->prefix, prefix, sizeof(int32_t) * n_prefix);
    s->n_nodes = s->n_best = 0, s->n_growing = 1;
    s->now[0] = (growing){.node = -1, .greedy = 1, .total = 0};
    return 1;
}

/* The candidates of a row: those that were found likeliest, unless this place has a rule of its own. Returns how many. */
static int candidates(const search *s, const beam *how, int length, int size, const float *logits, float log_sum,
                      float *log_ps, int32_t *tokens) {
    int forced = length < s->n_prefix ? s->prefix[length] : s->limit - length < 2 ? how->eos : -1;
    if (forced < 0 && length < s->shortest) { /* the end may not come yet */
        int32_t never[how->n_never + 1];
        memcpy(never, how->never, sizeof(int32_t) * how->n_never);
        never[how->n_never] = how->eos;
        largest_of(size, logits, how->n_never + 1, never, how->looked_at, log_ps, tokens);
        for (int k = 0; k < how->looked_at; k++) log_ps[k] = log_p_of(log_ps[k], log_sum);
        if (log_ps[0] == -INFINITY) forced = how->eos; /* if nothing is left, the sentence ends */
    }
    if (forced >= 0) log_ps[0] = log_p_of(logits[forced], log_sum), tokens[0] = forced;
    int count = forced >= 0 ? 1 : how->looked_at;
    while (count && log_ps[count - 1] == -INFINITY) count--;
    return count;
}

static int better(const void *a, const void *b) {
    const child *one = a, *other = b;
    if (one->loss != other->loss) return one->loss < other->loss ? -1 : 1;
    if (one->row != other->row) return one->row - other->row;
    return one->rank - other->rank;
}

/* The likeliest first: a sort by insertion where there are few, as nearly always. */
static void ranked(int count, child *children) {
    if (count > 64) {
        qsort(children, count, sizeof(child), better);
        return;
    }
    for (int i = 1; i < count; i++) {
        child one = children[i];
        int j = i;
        for (; j && better(&one, children + j - 1) < 0; j--) children[j] = children[j - 1];
        children[j] = one;
    }
}

/* One more token behind a growing hypothesis; -1 if there is no memory for it. */
static int then(search *s, const growing *parent, const child *by) {
    if (!enough((void **)&s->nodes, &s->room_nodes, s->n_nodes < s->room_nodes ? s->room_nodes : 2 * s->n_nodes, sizeof(node)))
        return -1;
    s->nodes[s->n_nodes] = (node){.parent = parent->node, .token = by->token, .log_p = by->log_p};
    return s->n_nodes++;
}

/* Among the best, behind those that are as good. */
static void end(search *s, const beam *how, int node, int length, double total) {
    ended one = {.node = node, .length = length, .score = penalised(total, length, how->length_penalty)};
    int i = s->n_best < how->n_best ? s->n_best++ : how->n_best;
    for (; i && one.score > s->best[i - 1].score; i--) s->best[i] = s->best[i - 1];
    if (i < how->n_best) s->best[i] = one;
}

/* Whether anything that grows could still come among the wanted. */
static int may_improve(const search *s, const beam *how) {
    if (!s->n_growing || s->n_best < how->n_best) return s->n_growing > 0;
    if (how->width == 1) return 0;
    double most = s->now[0].total;
    for (int i = 1; i < s->n_growing; i++) most = s->now[i].total > most ? s->now[i].total : most;
    return penalised(most, s->limit, how->length_penalty) > s->best[s->n_best - 1].score;
}

/* Take one step with these ways to go on. `rows`: where the new hypotheses come from. Returns how many there are, 0 when the
   search is over; -1 if there is no memory. */
static int advance(search *s, const beam *how, int length, int count, child *children, int32_t *rows) {
    ranked(count, children);
    int kept = 0;
    for (int place = 0; place < count; place++) {
        const child *by = children + place;
        const growing *parent = s->now + by->row;
        int greedy = parent->greedy && by->rank == 0, spared = how->keep_greedy && greedy;
        int is_end = by->token == how->eos;
        if (is_end ? place >= how->width && !spared : kept == how->width && !spared) continue;
        int made = then(s, parent, by);
        if (made < 0) return -1;
        double total = parent->total + by->log_p;
        if (is_end) {
            end(s, how, made, length + 1, total);
        } else {
            int to = kept < how->width ? kept++ : how->width - 1;
            s->next[to] = (growing){.node = made, .greedy = greedy, .total = total};
            rows[to] = by->row;
        }
    }
    growing *old = s->now;
    s->now = s->next, s->next = old;
    s->n_growing = kept;
    if (!may_improve(s, how)) s->n_growing = 0;
    return s->n_growing;
}
