#include "poly1305.h"

#include "bytes.h"

typedef unsigned __int128 uint128;

#define MASK44 ((UINT64_C(1) << 44) - 1)
#define MASK42 ((UINT64_C(1) << 42) - 1)

/* out = a * b mod 2^130 - 5, partly reduced. 2^132 = 20, so what passes limb 2 comes back times 20. */
ALWAYS_INLINE void multiply(uint64_t out[3], const uint64_t a[3], const uint64_t b[3])
{
    const uint64_t s1 = b[1] * 20, s2 = b[2] * 20;
    uint128 d0 = (uint128)a[0] * b[0] + (uint128)a[1] * s2 + (uint128)a[2] * s1;
    uint128 d1 = (uint128)a[0] * b[1] + (uint128)a[1] * b[0] + (uint128)a[2] * s2;
    uint128 d2 = (uint128)a[0] * b[2] + (uint128)a[1] * b[1] + (uint128)a[2] * b[0];
    d1 += (uint64_t)(d0 >> 44);
    d2 += (uint64_t)(d1 >> 44);
    const uint64_t h0 = ((uint64_t)d0 & MASK44) + (uint64_t)(d2 >> 42) * 5;
    out[0] = h0 & MASK44;
    out[1] = ((uint64_t)d1 & MASK44) + (h0 >> 44);
    out[2] = (uint64_t)d2 & MASK42;
}

/* Brings limbs to at most 2^44, 2^44 and 2^42. */
ALWAYS_INLINE void carry(uint64_t h[3])
{
    h[2] += h[1] >> 44;
    h[1] &= MASK44;
    h[0] += (h[2] >> 42) * 5;
    h[2] &= MASK42;
    h[1] += h[0] >> 44;
    h[0] &= MASK44;
    h[2] += h[1] >> 44;
    h[1] &= MASK44;
}

static void scalar_blocks(struct poly1305 *state, const uint8_t *in, size_t blocks, uint64_t high)
{
    uint64_t h[3] = {state->h[0], state->h[1], state->h[2]};
    const uint64_t r[3] = {state->power[0][0], state->power[0][1], state->power[0][2]};
    for (; blocks; blocks--, in += POLY1305_BLOCK) {
        const uint64_t low = load64_le(in), top = load64_le(in + 8);
        h[0] += low & MASK44;
        h[1] += ((low >> 44) | (top << 20)) & MASK44;
        h[2] += (top >> 24) | high;
        multiply(h, h, r);
    }
    memcpy(state->h, h, sizeof h);
}

static const uint64_t WHOLE = UINT64_C(1) << 40; /* the bit that ends a whole block, 2^128, in limb 2 */

void poly1305_init(struct poly1305 *state, const uint8_t key[POLY1305_KEY])
{
    const uint64_t low = load64_le(key) & UINT64_C(0x0ffffffc0fffffff), top = load64_le(key + 8) & UINT64_C(0x0ffffffc0ffffffc);
    memset(state->h, 0, sizeof state->h);
    state->power[0][0] = low & MASK44;
    state->power[0][1] = ((low >> 44) | (top << 20)) & MASK44;
    state->power[0][2] = top >> 24;
    memcpy(state->pad, key + 16, sizeof state->pad);
    state->powers = 1;
    state->vectors = 0;
}

void poly1305_powers(struct poly1305 *state, uint32_t count)
{
    /* r^k from its halves: a short chain, and neighbours do not wait for each other. */
    for (uint32_t k = state->powers + 1; k <= count; k++) {
        uint64_t *power = state->power[k - 1];
        multiply(power, state->power[k / 2 - 1], state->power[(k + 1) / 2 - 1]);
        carry(power);
    }
    if (count > state->powers)
        state->powers = count;
}

void poly1305_blocks(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size)
{
    const size_t vector = kernel->poly1305_bytes;
    if (vector && size >= (state->vectors ? vector : kernel->poly1305_worth)) {
        const size_t vectors = size / vector;
        kernel->poly1305_vectors(state, in, vectors);
        in += vectors * vector;
        size -= vectors * vector;
    }
    if (size)
        scalar_blocks(state, in, size / POLY1305_BLOCK, WHOLE);
}

void poly1305_padded(const struct kernel *kernel, struct poly1305 *state, const uint8_t *in, size_t size)
{
    const size_t rest = size % POLY1305_BLOCK, whole = size - rest;
    if (whole)
        poly1305_blocks(kernel, state, in, whole);
    if (rest) {
        uint8_t block[POLY1305_BLOCK] = {0};
        memcpy(block, in + whole, rest);
        scalar_blocks(state, block, 1, WHOLE);
        wipe(block, sizeof block);
    }
}

/* The accumulator as a number below p, as two words and what lies above them. */
static void reduce(const uint64_t from[3], uint64_t out[3])
{
    uint64_t h[3] = {from[0], from[1], from[2]};
    carry(h);
    carry(h);
    /* Now below 2^130 + 2^44: h + 5 - 2^130 is not negative exactly where h is at least p. */
    uint64_t g0 = h[0] + 5;
    uint64_t g1 = h[1] + (g0 >> 44);
    uint64_t g2 = h[2] + (g1 >> 44);
    const uint64_t take = 0 - (g2 >> 42);
    g0 = (h[0] & ~take) | (g0 & MASK44 & take);
    g1 = (h[1] & ~take) | (g1 & MASK44 & take);
    g2 = (h[2] & ~take) | (g2 & MASK42 & take);
    out[0] = g0 | (g1 << 44);
    out[1] = (g1 >> 20) | (g2 << 24);
    out[2] = g2 >> 40;
}

void poly1305_finish(struct poly1305 *state, const uint8_t *rest, size_t size, uint8_t tag[POLY1305_TAG])
{
    if (size) {
        uint8_t block[POLY1305_BLOCK] = {0};
        memcpy(block, rest, size);
        block[size] = 1;
        scalar_blocks(state, block, 1, 0);
        wipe(block, sizeof block);
    }
    uint64_t h[3];
    reduce(state->h, h);
    const uint128 sum = (uint128)h[0] + load64_le(state->pad);
    store64_le(tag, (uint64_t)sum);
    store64_le(tag + 8, h[1] + load64_le(state->pad + 8) + (uint64_t)(sum >> 64));
    wipe(h, sizeof h);
}

void poly1305_wipe(struct poly1305 *state)
{
    if (state->vectors)
        wipe(state, sizeof *state);
    else
        wipe(state, offsetof(struct poly1305, power) + sizeof state->power[0] * state->powers), wipe(state->pad, sizeof state->pad);
}

void poly1305_stream_init(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t key[POLY1305_KEY])
{
    stream->kernel = kernel;
    stream->used = 0;
    memcpy(stream->key, key, POLY1305_KEY);
    poly1305_init(&stream->state, key);
}

void poly1305_stream_write_large(struct poly1305_stream *stream, const uint8_t *in, size_t size)
{
    if (stream->used) {
        const size_t room = POLY1305_BUFFER - stream->used;
        const size_t take = size < room ? size : room;
        memcpy(stream->buffer + stream->used, in, take);
        stream->used += take;
        in += take;
        size -= take;
        if (stream->used < POLY1305_BUFFER)
            return;
        poly1305_blocks(stream->kernel, &stream->state, stream->buffer, POLY1305_BUFFER);
        stream->used = 0;
    }
    if (size >= POLY1305_BUFFER) {
        const size_t whole = size - size % POLY1305_BLOCK;
        poly1305_blocks(stream->kernel, &stream->state, in, whole);
        in += whole;
        size -= whole;
    }
    memcpy(stream->buffer, in, size);
    stream->used = size;
}

/* Absorbs the whole blocks that wait; returns what is left over, below 16 bytes. */
static size_t settle(struct poly1305_stream *stream)
{
    const size_t rest = stream->used % POLY1305_BLOCK, whole = stream->used - rest;
    if (whole) {
        poly1305_blocks(stream->kernel, &stream->state, stream->buffer, whole);
        memmove(stream->buffer, stream->buffer + whole, rest);
        stream->used = rest;
    }
    return rest;
}

void poly1305_stream_finish(struct poly1305_stream *stream, uint8_t tag[POLY1305_TAG])
{
    const size_t rest = settle(stream);
    poly1305_finish(&stream->state, stream->buffer, rest, tag);
    wipe(stream->key, sizeof *stream - offsetof(struct poly1305_stream, key));
    wipe(&stream->state, sizeof stream->state);
    stream->used = 0;
}

void poly1305_stream_export(struct poly1305_stream *stream, uint8_t out[POLY1305_STATE])
{
    const size_t rest = settle(stream);
    uint64_t h[3];
    reduce(stream->state.h, h);
    memset(out, 0, POLY1305_STATE);
    out[0] = 1;
    memcpy(out + 1, stream->key, POLY1305_KEY);
    store64_le(out + 33, h[0]);
    store64_le(out + 41, h[1]);
    out[49] = (uint8_t)h[2];
    out[50] = (uint8_t)rest;
    memcpy(out + 51, stream->buffer, rest);
    wipe(h, sizeof h);
}

int poly1305_stream_import(struct poly1305_stream *stream, const struct kernel *kernel, const uint8_t in[POLY1305_STATE])
{
    const uint64_t low = load64_le(in + 33), middle = load64_le(in + 41), top = in[49];
    const size_t rest = in[50];
    const int reduced = top < 3 || (top == 3 && (middle != UINT64_MAX || low < UINT64_MAX - 4));
    if (in[0] != 1 || rest >= POLY1305_BLOCK || !reduced)
        return -1;
    for (size_t i = rest; i < POLY1305_BLOCK - 1; i++)
        if (in[51 + i])
            return -1;
    poly1305_stream_init(stream, kernel, in + 1);
    stream->state.h[0] = low & MASK44;
    stream->state.h[1] = ((low >> 44) | (middle << 20)) & MASK44;
    stream->state.h[2] = (middle >> 24) | (top << 40);
    memcpy(stream->buffer, in + 51, rest);
    stream->used = rest;
    return 0;
}
