/* engine._native: the CPython binding, for the limited API of 3.11 on. Arguments, buffers, the GIL; nothing is computed here. */
#include "objects.h"

#include <pythread.h>

#include "aead.h"
#include "bytes.h"
#include "cpu/cpu.h"
#include "dispatch.h"
#include "secrets.h"

static struct secret_pool key_pool = {.slot_size = 64};
static struct secret_pool stream_pool = {.slot_size = (sizeof(struct poly1305_stream) + 63) / 64 * 64};

/* ---- Aead ---- */

static const char XCHACHA[] = "xchacha20-poly1305", CHACHA[] = "chacha20-poly1305";

static PyObject *aead_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"key", "algorithm", NULL};
    PyObject *key, *algorithm = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Aead", names, &key, &algorithm))
        return NULL;
    size_t nonce_size = XCHACHA20_NONCE;
    if (algorithm) {
        if (!PyUnicode_Check(algorithm))
            return wrong_type("algorithm", "a string", algorithm), NULL;
        if (!PyUnicode_CompareWithASCIIString(algorithm, CHACHA))
            nonce_size = CHACHA20_NONCE;
        else if (PyUnicode_CompareWithASCIIString(algorithm, XCHACHA))
            return PyErr_Format(PyExc_ValueError, "algorithm must be '%s' or '%s', not %R", XCHACHA, CHACHA, algorithm);
    }
    struct aead_object *self = (struct aead_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->kernel = ((struct module_state *)PyType_GetModuleState(type))->kernel;
    self->nonce_size = nonce_size;
    self->key = secret_take(&key_pool);
    if (!self->key)
        PyErr_NoMemory();
    if (!self->key || fixed_take(self->key, CHACHA20_KEY, key, "key")) {
        Py_DECREF(self);
        return NULL;
    }
    self->kernel->wipe_stack(0);
    return (PyObject *)self;
}

static void key_holder_free(PyObject *self, uint8_t *key)
{
    PyTypeObject *type = Py_TYPE(self);
    if (key) {
        wipe(key, CHACHA20_KEY);
        secret_release(&key_pool, key);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static void aead_dealloc(PyObject *self)
{
    key_holder_free(self, ((struct aead_object *)self)->key);
}

/* What both directions need of their arguments. */
struct message {
    struct input nonce, data, aad;
};

static void message_release(struct message *message)
{
    input_release(&message->nonce);
    input_release(&message->data);
    input_release(&message->aad);
}

static int message_take(struct message *message, const struct aead_object *self, PyObject *nonce, PyObject *data, PyObject *aad,
                        const char *data_name)
{
    message->data = message->aad = EMPTY;
    if (input_take(&message->nonce, nonce, "nonce"))
        return -1;
    if (message->nonce.size != self->nonce_size) {
        PyErr_Format(PyExc_ValueError, "nonce must be %zu bytes, not %zu", self->nonce_size, message->nonce.size);
    } else if (!input_take(&message->data, data, data_name) && !(aad && input_take(&message->aad, aad, "aad"))) {
        return 0;
    }
    message_release(message);
    return -1;
}

void set_invalid_tag(PyObject *object)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(object));
    PyErr_SetString(state->invalid_tag, "the tag does not verify");
}

static void run_seal(const struct aead_object *self, const uint8_t *nonce, const struct aead_aad *aad, const uint8_t *in, size_t size,
                     uint8_t *out)
{
    PyThreadState *thread = size >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
    aead_seal(self->kernel, self->key, nonce, self->nonce_size, aad, in, size, out, out + size);
    if (thread)
        PyEval_RestoreThread(thread);
}

/* `in` holds size bytes of ciphertext and the tag. */
static int run_open(const struct aead_object *self, const uint8_t *nonce, const struct aead_aad *aad, const uint8_t *in, size_t size,
                    uint8_t *out)
{
    PyThreadState *thread = size >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
    const int differs = aead_open(self->kernel, self->key, nonce, self->nonce_size, aad, in, size, in + size, out);
    if (thread)
        PyEval_RestoreThread(thread);
    if (differs)
        set_invalid_tag((PyObject *)self);
    return differs;
}

static int check_plaintext_size(size_t size)
{
    return size > AEAD_PLAINTEXT_MAX ? too_long("plaintext", AEAD_PLAINTEXT_MAX, size) : 0;
}

static int check_sealed_size(const char *name, size_t size, size_t least)
{
    if (size < least) {
        PyErr_Format(PyExc_ValueError, "%s must be at least %zu bytes, not %zu", name, least, size);
        return -1;
    }
    return size - least > AEAD_PLAINTEXT_MAX ? too_long(name, AEAD_PLAINTEXT_MAX + least, size) : 0;
}

PyDoc_STRVAR(aead_seal_doc, "seal(nonce, plaintext, aad=b'')\n--\n\nCiphertext || 16-byte tag.");

static PyObject *aead_seal_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"nonce", "plaintext", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[3], *result = NULL;
    struct message message;
    if (arguments("seal", args, count, keywords, names, 2, 3, values) ||
        message_take(&message, self, values[0], values[1], values[2], names[1]))
        return NULL;
    const size_t size = message.data.size;
    if (!check_plaintext_size(size) && (result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size + AEAD_TAG)))) {
        const struct aead_aad aad = {{message.aad.data, NULL}, {message.aad.size, 0}};
        run_seal(self, message.nonce.data, &aad, message.data.data, size, bytes_data(result));
    }
    message_release(&message);
    return result;
}

PyDoc_STRVAR(aead_open_doc, "open(nonce, sealed, aad=b'')\n--\n\nThe plaintext; InvalidTag where it does not verify.");

static PyObject *aead_open_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"nonce", "sealed", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[3], *result = NULL;
    struct message message;
    if (arguments("open", args, count, keywords, names, 2, 3, values) ||
        message_take(&message, self, values[0], values[1], values[2], names[1]))
        return NULL;
    if (!check_sealed_size("sealed", message.data.size, AEAD_TAG)) {
        const size_t size = message.data.size - AEAD_TAG;
        if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size))) {
            const struct aead_aad aad = {{message.aad.data, NULL}, {message.aad.size, 0}};
            if (run_open(self, message.nonce.data, &aad, message.data.data, size, bytes_data(result)))
                Py_CLEAR(result);
        }
    }
    message_release(&message);
    return result;
}

/* `out` for at least `size` bytes, which may begin where the input does and otherwise must not touch it. */
static int output_take(Py_buffer *view, PyObject *out, size_t size, const struct input *in)
{
    if (view_of(view, out, PyBUF_WRITABLE, "out"))
        return -1;
    const uint8_t *start = view->buf;
    if ((size_t)view->len < size)
        PyErr_Format(PyExc_ValueError, "out must be at least %zu bytes, not %zd", size, view->len);
    else if (start != in->data && start < in->data + in->size && in->data < start + size)
        PyErr_SetString(PyExc_ValueError, "out must begin where the input begins, or not overlap it");
    else
        return 0;
    PyBuffer_Release(view);
    return -1;
}

PyDoc_STRVAR(aead_seal_into_doc, "seal_into(nonce, plaintext, out, aad=b'')\n--\n\n"
                                 "Writes ciphertext || tag into out and returns their length. out may be plaintext's own buffer.");

static PyObject *aead_seal_into_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"nonce", "plaintext", "out", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[4], *result = NULL;
    struct message message;
    Py_buffer out;
    if (arguments("seal_into", args, count, keywords, names, 3, 4, values) ||
        message_take(&message, self, values[0], values[1], values[3], names[1]))
        return NULL;
    const size_t size = message.data.size;
    if (!check_plaintext_size(size) && !output_take(&out, values[2], size + AEAD_TAG, &message.data)) {
        const struct aead_aad aad = {{message.aad.data, NULL}, {message.aad.size, 0}};
        run_seal(self, message.nonce.data, &aad, message.data.data, size, out.buf);
        PyBuffer_Release(&out);
        result = PyLong_FromSize_t(size + AEAD_TAG);
    }
    message_release(&message);
    return result;
}

PyDoc_STRVAR(aead_open_into_doc, "open_into(nonce, sealed, out, aad=b'')\n--\n\n"
                                 "Writes the plaintext into out and returns its length; InvalidTag, and nothing written, where it does not verify.");

static PyObject *aead_open_into_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"nonce", "sealed", "out", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[4], *result = NULL;
    struct message message;
    Py_buffer out;
    if (arguments("open_into", args, count, keywords, names, 3, 4, values) ||
        message_take(&message, self, values[0], values[1], values[3], names[1]))
        return NULL;
    if (!check_sealed_size("sealed", message.data.size, AEAD_TAG)) {
        const size_t size = message.data.size - AEAD_TAG;
        if (!output_take(&out, values[2], size, &message.data)) {
            const struct aead_aad aad = {{message.aad.data, NULL}, {message.aad.size, 0}};
            if (!run_open(self, message.nonce.data, &aad, message.data.data, size, out.buf))
                result = PyLong_FromSize_t(size);
            PyBuffer_Release(&out);
        }
    }
    message_release(&message);
    return result;
}

/* The length of a list of bytes-like pieces, or -1. Each is copied to `out` as well, where that is given. */
static Py_ssize_t gather(PyObject *pieces, uint8_t *out, size_t room)
{
    size_t size = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(pieces); i++) {
        struct input piece;
        if (input_take(&piece, PyList_GetItem(pieces, i), "plaintext piece"))
            return -1;
        if (out && piece.size > room - size) { /* it grew since it was measured */
            input_release(&piece);
            PyErr_SetString(PyExc_ValueError, "plaintext must not change while it is sealed");
            return -1;
        }
        if (out)
            memcpy(out + size, piece.data, piece.size);
        size += piece.size;
        input_release(&piece);
    }
    return (Py_ssize_t)size;
}

/* prefix || nonce || ciphertext || tag, with the nonce given. */
static PyObject *seal_framed(const struct aead_object *self, const struct input *prefix, PyObject *plaintext, PyObject *aad_object,
                             const uint8_t *nonce)
{
    struct input data = EMPTY, aad = EMPTY;
    PyObject *result = NULL;
    const int pieces = PyList_Check(plaintext);
    if (pieces) {
        const Py_ssize_t size = gather(plaintext, NULL, 0);
        if (size < 0)
            return NULL;
        data.size = (size_t)size;
    } else if (input_take(&data, plaintext, "plaintext")) {
        return NULL;
    }
    const size_t before = prefix->size + self->nonce_size;
    if ((!aad_object || !input_take(&aad, aad_object, "aad")) && !check_plaintext_size(data.size) &&
        (result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(before + data.size + AEAD_TAG)))) {
        uint8_t *out = bytes_data(result);
        memcpy(out, prefix->data, prefix->size);
        memcpy(out + prefix->size, nonce, self->nonce_size);
        if (pieces && gather(plaintext, out + before, data.size) != (Py_ssize_t)data.size) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "plaintext must not change while it is sealed");
            Py_CLEAR(result);
        } else {
            const struct aead_aad both = {{prefix->data, aad.data}, {prefix->size, aad.size}};
            run_seal(self, nonce, &both, pieces ? out + before : data.data, data.size, out + before);
        }
    }
    input_release(&data);
    input_release(&aad);
    return result;
}

static int fresh_nonces(uint8_t *nonces, size_t size)
{
    if (!secret_random(nonces, size))
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

PyDoc_STRVAR(aead_seal_framed_doc, "seal_framed(prefix, plaintext, aad=b'')\n--\n\n"
                                   "prefix || random nonce || ciphertext || tag, where the AAD is prefix || aad. plaintext may be a list of pieces.");

static PyObject *aead_seal_framed_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"prefix", "plaintext", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[3], *result = NULL;
    struct input prefix;
    uint8_t nonce[AEAD_NONCE_MAX];
    if (arguments("seal_framed", args, count, keywords, names, 2, 3, values) || input_take(&prefix, values[0], names[0]))
        return NULL;
    if (!fresh_nonces(nonce, self->nonce_size))
        result = seal_framed(self, &prefix, values[1], values[2], nonce);
    input_release(&prefix);
    return result;
}

PyDoc_STRVAR(aead_seal_framed_many_doc, "seal_framed_many(prefix, items)\n--\n\nA list of seal_framed(prefix, plaintext, aad) for every (plaintext, aad).");

static PyObject *aead_seal_framed_many_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"prefix", "items"};
    enum { AT_ONCE = 64 };
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[2];
    struct input prefix;
    if (arguments("seal_framed_many", args, count, keywords, names, 2, 2, values) || input_take(&prefix, values[0], names[0]))
        return NULL;
    /* A tuple of our own: the GIL is released below, and a list could change. */
    PyObject *items = PySequence_Tuple(values[1]), *results = items ? PyList_New(PyTuple_Size(items)) : NULL;
    uint8_t nonces[AT_ONCE * AEAD_NONCE_MAX];
    const Py_ssize_t total = results ? PyTuple_Size(items) : 0;
    for (Py_ssize_t i = 0; i < total; i++) {
        if (i % AT_ONCE == 0) {
            const size_t left = (size_t)(total - i);
            if (fresh_nonces(nonces, (left < AT_ONCE ? left : AT_ONCE) * self->nonce_size))
                goto fail;
        }
        PyObject *item = PyTuple_GetItem(items, i), *sealed;
        if (!PyTuple_Check(item) || PyTuple_Size(item) != 2) {
            PyErr_SetString(PyExc_TypeError, "each of items must be a tuple (plaintext, aad)");
            goto fail;
        }
        sealed = seal_framed(self, &prefix, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1), nonces + (size_t)(i % AT_ONCE) * self->nonce_size);
        if (!sealed)
            goto fail;
        PyList_SetItem(results, i, sealed);
    }
    if (0) {
    fail:
        Py_CLEAR(results);
    }
    Py_XDECREF(items);
    input_release(&prefix);
    return results;
}

PyDoc_STRVAR(aead_open_framed_doc, "open_framed(message, prefix_size, aad=b'')\n--\n\nThe inverse of seal_framed: the plaintext, or InvalidTag.");

static PyObject *aead_open_framed_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"message", "prefix_size", "aad"};
    const struct aead_object *self = (const struct aead_object *)object;
    PyObject *values[3], *result = NULL;
    struct input message, aad_input = EMPTY;
    if (arguments("open_framed", args, count, keywords, names, 2, 3, values))
        return NULL;
    if (!PyLong_Check(values[1]))
        return wrong_type(names[1], "an int", values[1]), NULL;
    if (input_take(&message, values[0], names[0]))
        return NULL;
    const size_t prefix = PyLong_AsSize_t(values[1]);
    if (PyErr_Occurred()) { /* negative, or past any size */
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "prefix_size must be from 0 to the message's %zu bytes, not %R", message.size, values[1]);
        input_release(&message);
        return NULL;
    }
    const size_t before = prefix + self->nonce_size;
    if (prefix > message.size)
        PyErr_Format(PyExc_ValueError, "prefix_size must be from 0 to the message's %zu bytes, not %zu", message.size, prefix);
    else if (!check_sealed_size("message", message.size, before + AEAD_TAG) && !(values[2] && input_take(&aad_input, values[2], names[2]))) {
        const size_t size = message.size - before - AEAD_TAG;
        if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size))) {
            const struct aead_aad aad = {{message.data, aad_input.data}, {prefix, aad_input.size}};
            if (run_open(self, message.data + prefix, &aad, message.data + before, size, bytes_data(result)))
                Py_CLEAR(result);
        }
    }
    input_release(&aad_input);
    input_release(&message);
    return result;
}

static PyObject *aead_algorithm(PyObject *self, void *closure)
{
    (void)closure;
    return PyUnicode_FromString(((struct aead_object *)self)->nonce_size == CHACHA20_NONCE ? CHACHA : XCHACHA);
}

static PyObject *aead_nonce_size(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((struct aead_object *)self)->nonce_size);
}

static PyMethodDef aead_methods[] = {
    FAST("seal", aead_seal_method, aead_seal_doc),
    FAST("open", aead_open_method, aead_open_doc),
    FAST("seal_into", aead_seal_into_method, aead_seal_into_doc),
    FAST("open_into", aead_open_into_method, aead_open_into_doc),
    FAST("seal_framed", aead_seal_framed_method, aead_seal_framed_doc),
    FAST("seal_framed_many", aead_seal_framed_many_method, aead_seal_framed_many_doc),
    FAST("open_framed", aead_open_framed_method, aead_open_framed_doc),
    FAST("seal_chunks", aead_seal_chunks_method, aead_seal_chunks_doc),
    FAST("open_chunks", aead_open_chunks_method, aead_open_chunks_doc),
    FAST("verify_chunks", aead_verify_chunks_method, aead_verify_chunks_doc),
    {0},
};

static PyGetSetDef aead_attributes[] = {
    {"algorithm", aead_algorithm, NULL, "The AEAD's name.", NULL},
    {"nonce_size", aead_nonce_size, NULL, "Bytes of a nonce: 12, or 24 for XChaCha20.", NULL},
    {0},
};

static PyType_Slot aead_slots[] = {
    {Py_tp_doc, "Aead(key, algorithm='xchacha20-poly1305')\n--\n\nSeals and opens under one 32-byte key. Immutable, shared freely between threads."},
    {Py_tp_new, aead_new},
    {Py_tp_dealloc, aead_dealloc},
    {Py_tp_methods, aead_methods},
    {Py_tp_getset, aead_attributes},
    {0, NULL},
};

static PyType_Spec aead_spec = {"engine._native.Aead", sizeof(struct aead_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, aead_slots};

/* ---- Poly1305 ---- */

struct poly1305_object {
    PyObject_HEAD
    struct poly1305_stream *stream;
    PyThread_type_lock lock; /* made when the GIL is first released under an update: small streams never pay for it */
    int finished;
    uint8_t tag[POLY1305_TAG];
};

static PyObject *poly1305_make(PyTypeObject *type)
{
    struct poly1305_object *self = (struct poly1305_object *)PyType_GenericAlloc(type, 0);
    if (self && !(self->stream = secret_take(&stream_pool))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static const struct kernel *kernel_for(PyTypeObject *type)
{
    return ((struct module_state *)PyType_GetModuleState(type))->kernel;
}

static PyObject *poly1305_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"one_time_key", NULL};
    PyObject *key_object;
    uint8_t key[POLY1305_KEY];
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Poly1305", names, &key_object) ||
        fixed_take(key, sizeof key, key_object, names[0]))
        return NULL;
    PyObject *self = poly1305_make(type);
    if (self)
        poly1305_stream_init(((struct poly1305_object *)self)->stream, kernel_for(type), key);
    wipe(key, sizeof key);
    kernel_for(type)->wipe_stack(0);
    return self;
}

static void poly1305_dealloc(PyObject *object)
{
    struct poly1305_object *self = (struct poly1305_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->stream) {
        poly1305_stream_wipe(self->stream);
        secret_release(&stream_pool, self->stream);
    }
    if (self->lock)
        PyThread_free_lock(self->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Waits, with the GIL released, until no other thread works on the stream without the GIL. */
static void poly1305_enter(struct poly1305_object *self)
{
    if (self->lock && PyThread_acquire_lock(self->lock, NOWAIT_LOCK) != PY_LOCK_ACQUIRED) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(self->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
}

static void poly1305_leave(struct poly1305_object *self)
{
    if (self->lock)
        PyThread_release_lock(self->lock);
}

static int poly1305_check_open(const struct poly1305_object *self)
{
    if (!self->finished)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the MAC is finished: one key makes one tag");
    return -1;
}

static PyObject *poly1305_update(PyObject *object, PyObject *data)
{
    struct poly1305_object *self = (struct poly1305_object *)object;
    struct input input;
    if (input_take(&input, data, "data"))
        return NULL;
    const int release = input.size >= RELEASE_GIL_FROM;
    if (release && !self->lock && !(self->lock = PyThread_allocate_lock())) {
        input_release(&input);
        return PyErr_NoMemory();
    }
    poly1305_enter(self);
    const int bad = poly1305_check_open(self);
    if (!bad) {
        PyThreadState *thread = release ? PyEval_SaveThread() : NULL;
        poly1305_stream_write(self->stream, input.data, input.size);
        if (thread)
            PyEval_RestoreThread(thread);
    }
    poly1305_leave(self);
    input_release(&input);
    return bad ? NULL : Py_NewRef(Py_None);
}

static void poly1305_finish_once(struct poly1305_object *self)
{
    poly1305_enter(self);
    if (!self->finished) {
        poly1305_stream_finish(self->stream, self->tag);
        self->finished = 1;
    }
    poly1305_leave(self);
}

static PyObject *poly1305_digest(PyObject *object, PyObject *unused)
{
    struct poly1305_object *self = (struct poly1305_object *)object;
    (void)unused;
    poly1305_finish_once(self);
    return PyBytes_FromStringAndSize((const char *)self->tag, POLY1305_TAG);
}

static PyObject *poly1305_verify(PyObject *object, PyObject *tag_object)
{
    struct poly1305_object *self = (struct poly1305_object *)object;
    uint8_t tag[POLY1305_TAG];
    if (fixed_take(tag, sizeof tag, tag_object, "tag"))
        return NULL;
    poly1305_finish_once(self);
    if (!tag_differs(tag, self->tag))
        Py_RETURN_NONE;
    set_invalid_tag(object);
    return NULL;
}

static PyObject *poly1305_export_state(PyObject *object, PyObject *unused)
{
    struct poly1305_object *self = (struct poly1305_object *)object;
    (void)unused;
    PyObject *result = PyBytes_FromStringAndSize(NULL, POLY1305_STATE);
    if (!result)
        return NULL;
    poly1305_enter(self);
    if (poly1305_check_open(self))
        Py_CLEAR(result);
    else
        poly1305_stream_export(self->stream, bytes_data(result));
    poly1305_leave(self);
    return result;
}

static PyObject *poly1305_from_state(PyObject *type, PyObject *state_object)
{
    uint8_t state[POLY1305_STATE];
    if (fixed_take(state, sizeof state, state_object, "state"))
        return NULL;
    PyObject *self = poly1305_make((PyTypeObject *)type);
    if (self && poly1305_stream_import(((struct poly1305_object *)self)->stream, kernel_for((PyTypeObject *)type), state)) {
        PyErr_SetString(PyExc_ValueError, "state must be what export_state() returned: its version, accumulator or pending bytes are not");
        Py_CLEAR(self);
    }
    wipe(state, sizeof state);
    kernel_for((PyTypeObject *)type)->wipe_stack(0);
    return self;
}

static PyMethodDef poly1305_methods[] = {
    {"update", poly1305_update, METH_O, "update(data)\n--\n\nAbsorbs data of any length."},
    {"digest", poly1305_digest, METH_NOARGS, "digest()\n--\n\nThe 16-byte tag. The MAC is finished then."},
    {"verify", poly1305_verify, METH_O, "verify(tag)\n--\n\nInvalidTag unless tag is the tag, in constant time. The MAC is finished then."},
    {"export_state", poly1305_export_state, METH_NOARGS, "export_state()\n--\n\n66 bytes from which from_state goes on, on any kernel. Holds the key."},
    {"from_state", poly1305_from_state, METH_O | METH_CLASS, "from_state(state)\n--\n\nGoes on from what export_state returned."},
    {0},
};

static PyType_Slot poly1305_slots[] = {
    {Py_tp_doc, "Poly1305(one_time_key)\n--\n\nA MAC under a 32-byte one-time key (RFC 8439, section 2.5)."},
    {Py_tp_new, poly1305_new},
    {Py_tp_dealloc, poly1305_dealloc},
    {Py_tp_methods, poly1305_methods},
    {0, NULL},
};

static PyType_Spec poly1305_spec = {"engine._native.Poly1305", sizeof(struct poly1305_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, poly1305_slots};

/* ---- MacKey ---- */

struct mac_key_object {
    PyObject_HEAD
    const struct kernel *kernel;
    uint8_t *key;
};

static PyObject *mac_key_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"key", NULL};
    PyObject *key;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:MacKey", names, &key))
        return NULL;
    struct mac_key_object *self = (struct mac_key_object *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    self->kernel = kernel_for(type);
    self->key = secret_take(&key_pool);
    if (!self->key)
        PyErr_NoMemory();
    if (!self->key || fixed_take(self->key, CHACHA20_KEY, key, "key")) {
        Py_DECREF(self);
        return NULL;
    }
    self->kernel->wipe_stack(0);
    return (PyObject *)self;
}

static void mac_key_dealloc(PyObject *self)
{
    key_holder_free(self, ((struct mac_key_object *)self)->key);
}

static PyObject *mac_key_start(PyObject *object, PyObject *nonce_object)
{
    const struct mac_key_object *self = (const struct mac_key_object *)object;
    const struct module_state *module = PyType_GetModuleState(Py_TYPE(object));
    uint8_t nonce[XCHACHA20_NONCE], block[CHACHA20_ROWS_MAX];
    uint32_t state[16];
    if (fixed_take(nonce, sizeof nonce, nonce_object, "nonce"))
        return NULL;
    PyObject *mac = poly1305_make(module->poly1305);
    if (mac) {
        xchacha20_state(self->kernel, state, self->key, 0, nonce);
        self->kernel->chacha20_rows(block, CHACHA20_BLOCK, state, 0);
        poly1305_stream_init(((struct poly1305_object *)mac)->stream, self->kernel, block);
        wipe(state, sizeof state);
        wipe(block, self->kernel->rows_step);
        self->kernel->wipe_stack(0);
    }
    return mac;
}

static PyMethodDef mac_key_methods[] = {
    {"start", mac_key_start, METH_O, "start(nonce)\n--\n\nA Poly1305 whose one-time key is block 0 of XChaCha20 under the 24-byte nonce."},
    {0},
};

static PyType_Slot mac_key_slots[] = {
    {Py_tp_doc, "MacKey(key)\n--\n\nMakes one-time Poly1305 keys from one 32-byte key: Poly1305-XChaCha20."},
    {Py_tp_new, mac_key_new},
    {Py_tp_dealloc, mac_key_dealloc},
    {Py_tp_methods, mac_key_methods},
    {0, NULL},
};

static PyType_Spec mac_key_spec = {"engine._native.MacKey", sizeof(struct mac_key_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, mac_key_slots};

/* ---- functions ---- */

static const struct kernel *current(PyObject *module)
{
    return ((struct module_state *)PyModule_GetState(module))->kernel;
}

PyDoc_STRVAR(chacha20_xor_doc, "chacha20_xor(key, nonce, data, counter=0)\n--\n\ndata XOR the keystream from block `counter` on (RFC 8439, section 2.4).");

static PyObject *chacha20_xor_function(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"key", "nonce", "data", "counter"};
    PyObject *values[4], *result = NULL;
    uint8_t key[CHACHA20_KEY], nonce[CHACHA20_NONCE];
    struct input data;
    if (arguments("chacha20_xor", args, count, keywords, names, 3, 4, values))
        return NULL;
    unsigned long long counter = 0;
    if (values[3]) {
        if (!PyLong_Check(values[3]))
            return wrong_type("counter", "an int", values[3]), NULL;
        counter = PyLong_AsUnsignedLongLong(values[3]);
        if (PyErr_Occurred() || counter > UINT32_MAX) {
            PyErr_Clear();
            return PyErr_Format(PyExc_ValueError, "counter must be from 0 to 4294967295, not %R", values[3]);
        }
    }
    if (fixed_take(nonce, sizeof nonce, values[1], names[1]) || fixed_take(key, sizeof key, values[0], names[0]))
        return NULL;
    if (!input_take(&data, values[2], names[2])) {
        const uint64_t most = chacha20_limit((uint32_t)counter);
        if (data.size > most) {
            too_long("data", most, data.size);
        } else if ((result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)data.size))) {
            const struct kernel *kernel = current(module);
            uint32_t state[16];
            chacha20_state(state, key, (uint32_t)counter, nonce);
            uint8_t *out = bytes_data(result);
            PyThreadState *thread = data.size >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
            chacha20_xor(kernel, state, out, data.data, data.size);
            kernel->wipe_stack(1);
            if (thread)
                PyEval_RestoreThread(thread);
            wipe(state, sizeof state);
        }
        input_release(&data);
    }
    wipe(key, sizeof key);
    return result;
}

PyDoc_STRVAR(hchacha20_doc, "hchacha20(key, nonce)\n--\n\nThe 32-byte subkey for a 16-byte nonce (draft-irtf-cfrg-xchacha-03, section 2.2).");

static PyObject *hchacha20_function(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"key", "nonce"};
    PyObject *values[2];
    uint8_t key[CHACHA20_KEY], nonce[HCHACHA20_NONCE];
    if (arguments("hchacha20", args, count, keywords, names, 2, 2, values) || fixed_take(nonce, sizeof nonce, values[1], names[1]) ||
        fixed_take(key, sizeof key, values[0], names[0]))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, CHACHA20_KEY);
    if (result) {
        hchacha20(current(module), bytes_data(result), key, nonce);
        current(module)->wipe_stack(0);
    }
    wipe(key, sizeof key);
    return result;
}

static PyObject *names_tuple(const char *const *names, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (!name || PyTuple_SetItem(tuple, i, name))
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *kernels_function(PyObject *module, PyObject *unused)
{
    const char *names[32];
    Py_ssize_t count = 0;
    (void)module, (void)unused;
    for (const struct kernel *const *kernel = kernels_usable(); *kernel; kernel++)
        names[count++] = (*kernel)->name;
    return names_tuple(names, count);
}

static PyObject *cpu_features_function(PyObject *module, PyObject *unused)
{
    const char *names[64];
    Py_ssize_t count = 0;
    const uint64_t features = cpu_features();
    (void)module, (void)unused;
    for (const struct cpu_feature *feature = cpu_feature_names; feature->name; feature++)
        if (features & feature->bit)
            names[count++] = feature->name;
    return names_tuple(names, count);
}

static PyObject *kernel_function(PyObject *module, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(current(module)->name);
}

static PyObject *use_kernel_function(PyObject *module, PyObject *name)
{
    if (!PyUnicode_Check(name))
        return wrong_type("name", "a string", name), NULL;
    for (const struct kernel *const *kernel = kernels_usable(); *kernel; kernel++)
        if (!PyUnicode_CompareWithASCIIString(name, (*kernel)->name)) {
            ((struct module_state *)PyModule_GetState(module))->kernel = *kernel;
            Py_RETURN_NONE;
        }
    PyObject *known = kernels_function(module, NULL);
    if (known)
        PyErr_Format(PyExc_ValueError, "name must be a kernel that this machine can run, one of %R, not %R", known, name);
    Py_XDECREF(known);
    return NULL;
}

static PyMethodDef functions[] = {
    FAST("chacha20_xor", chacha20_xor_function, chacha20_xor_doc),
    FAST("hchacha20", hchacha20_function, hchacha20_doc),
    {"kernels", kernels_function, METH_NOARGS, "kernels()\n--\n\nNames of the kernels that this machine can run, best first."},
    {"kernel", kernel_function, METH_NOARGS, "kernel()\n--\n\nThe kernel that objects made from now on use."},
    {"use_kernel", use_kernel_function, METH_O, "use_kernel(name)\n--\n\nObjects made from now on use this kernel."},
    {"cpu_features", cpu_features_function, METH_NOARGS, "cpu_features()\n--\n\nWhat the CPU and the operating system allow, of what kernels ask for."},
    {0},
};

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type && PyModule_AddType(module, type))
        Py_CLEAR(type);
    return type;
}

static int module_exec(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    state->kernel = kernels_usable()[0];
    state->invalid_tag = PyErr_NewExceptionWithDoc("engine.InvalidTag", "What was to be opened or verified is not what was sealed or MACed.", NULL, NULL);
    if (!state->invalid_tag || PyModule_AddObjectRef(module, "InvalidTag", state->invalid_tag))
        return -1;
    state->aead = add_type(module, &aead_spec);
    state->poly1305 = add_type(module, &poly1305_spec);
    state->mac_key = add_type(module, &mac_key_spec);
    return state->aead && state->poly1305 && state->mac_key ? 0 : -1;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct module_state *state = PyModule_GetState(module);
    Py_VISIT(state->invalid_tag);
    Py_VISIT(state->aead);
    Py_VISIT(state->poly1305);
    Py_VISIT(state->mac_key);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct module_state *state = PyModule_GetState(module);
    Py_CLEAR(state->invalid_tag);
    Py_CLEAR(state->aead);
    Py_CLEAR(state->poly1305);
    Py_CLEAR(state->mac_key);
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "engine._native", .m_doc = "The native backend.", .m_size = sizeof(struct module_state),
    .m_methods = functions, .m_slots = module_slots, .m_traverse = module_traverse, .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
