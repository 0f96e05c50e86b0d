#include "secrets.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "bytes.h"

enum { CHUNK = 64 * 1024 };

/* A free slot holds the address of the next in its first bytes and zeros elsewhere. */
void *secret_take(struct secret_pool *pool)
{
    if (!pool->free) {
        uint8_t *chunk = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        (void)mlock(chunk, CHUNK); /* RLIMIT_MEMLOCK may not allow it: then the keys are as safe as the swap */
#ifdef MADV_DONTDUMP
        (void)madvise(chunk, CHUNK, MADV_DONTDUMP);
#endif
        for (size_t at = CHUNK / pool->slot_size * pool->slot_size; at; at -= pool->slot_size) {
            void *slot = chunk + at - pool->slot_size;
            memcpy(slot, &pool->free, sizeof(void *));
            pool->free = slot;
        }
    }
    void *slot = pool->free;
    memcpy(&pool->free, slot, sizeof(void *));
    memset(slot, 0, sizeof(void *));
    return slot;
}

void secret_release(struct secret_pool *pool, void *slot)
{
    memcpy(slot, &pool->free, sizeof(void *));
    pool->free = slot;
}

int secret_random(void *out, size_t size)
{
    uint8_t *to = out;
    while (size) {
        const ssize_t got = getrandom(to, size, 0);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        to += got;
        size -= (size_t)got;
    }
    return 0;
}
