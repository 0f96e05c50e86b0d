/* Memory for keys: locked where the limit allows, left out of core dumps, wiped on release. */
#ifndef SEALANE_SECRETS_H
#define SEALANE_SECRETS_H

#include <stddef.h>

/* Slots of one size. Not for use by two threads at once: callers hold the GIL. */
struct secret_pool {
    size_t slot_size; /* a multiple of 64; slots are aligned to 64 */
    void *free;
};

/* A slot of zeros, or NULL where there is no memory. Memory is kept for the next slot, never given back. */
void *secret_take(struct secret_pool *pool);

/* The slot goes back: its owner has wiped it, since only that knows how much of it was used. */
void secret_release(struct secret_pool *pool, void *slot);

/* Fills from the operating system's generator, every time: nothing that a fork inherits decides what comes. 0, or -1 with errno. */
int secret_random(void *out, size_t size);

#endif
