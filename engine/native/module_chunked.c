/* Aead's methods over many chunks of a stream, bound to Python; nothing is computed here. */
#include "objects.h"

#include "chunked.h"

/* A buffer, or a list of buffers that count as their concatenation. */
struct inputs {
    struct input *input;
    struct chunked_piece *piece;
    Py_ssize_t count;
    size_t size;
    PyObject *held;   /* a list's items: another thread may change the list while the GIL is released */
    struct input one; /* so that a single buffer allocates nothing */
    struct chunked_piece one_piece;
};

static void inputs_release(struct inputs *inputs)
{
    for (Py_ssize_t i = 0; i < inputs->count; i++)
        input_release(&inputs->input[i]);
    if (inputs->input != &inputs->one)
        PyMem_Free(inputs->input);
    if (inputs->piece != &inputs->one_piece)
        PyMem_Free(inputs->piece);
    Py_XDECREF(inputs->held);
}

static int inputs_add(struct inputs *inputs, PyObject *object, const char *name)
{
    struct input *input = &inputs->input[inputs->count];
    if (input_take(input, object, name))
        return -1;
    inputs->piece[inputs->count++] = (struct chunked_piece){input->data, input->size};
    if (input->size > (size_t)PY_SSIZE_T_MAX / 2 - inputs->size) { /* room for the tags, too */
        PyErr_NoMemory();
        return -1;
    }
    inputs->size += input->size;
    return 0;
}

static int inputs_make_room(struct inputs *inputs, Py_ssize_t count)
{
    if (count <= 1)
        return 0;
    inputs->input = PyMem_Calloc((size_t)count, sizeof *inputs->input);
    inputs->piece = PyMem_Calloc((size_t)count, sizeof *inputs->piece);
    if (inputs->input && inputs->piece)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static int inputs_take(struct inputs *inputs, PyObject *object, const char *name)
{
    inputs->input = &inputs->one;
    inputs->piece = &inputs->one_piece;
    inputs->count = 0;
    inputs->size = 0;
    inputs->held = NULL;
    int bad;
    if (!PyList_Check(object)) {
        bad = inputs_add(inputs, object, name);
    } else if (!(inputs->held = PyList_AsTuple(object))) {
        bad = -1;
    } else {
        char piece_name[32];
        PyOS_snprintf(piece_name, sizeof piece_name, "%s piece", name);
        const Py_ssize_t count = PyTuple_Size(inputs->held);
        bad = inputs_make_room(inputs, count);
        for (Py_ssize_t i = 0; i < count && !bad; i++)
            bad = inputs_add(inputs, PyTuple_GetItem(inputs->held, i), piece_name);
    }
    if (bad)
        inputs_release(inputs);
    return bad;
}

/* One call's arguments. */
struct run {
    struct chunked chunked;
    struct input nonce;
    struct inputs data;
    int last;
    uint64_t count; /* chunks */
};

static void run_release(struct run *run)
{
    inputs_release(&run->data);
    input_release(&run->nonce);
}

/* `overhead`: what each chunk of the data has beyond its plaintext. */
static int run_check(struct run *run, const struct aead_object *self, PyObject *index, const char *data_name, size_t overhead)
{
    const size_t unit = CHUNK_SIZE + overhead, rest = run->data.size % unit;
    run->count = run->data.size / unit + (run->last ? 1 : 0);
    if (run->nonce.size != self->nonce_size) {
        PyErr_Format(PyExc_ValueError, "base_nonce must be %zu bytes, not %zu", self->nonce_size, run->nonce.size);
        return -1;
    }
    if (!run->last && rest) {
        PyErr_Format(PyExc_ValueError, "%s must be a multiple of %zu bytes unless it is the last, not %zu", data_name, unit, run->data.size);
        return -1;
    }
    if (run->last && rest < overhead) {
        PyErr_Format(PyExc_ValueError, "%s must end with a chunk of %zu to %zu bytes, not %zu", data_name, overhead, unit - 1, rest);
        return -1;
    }
    if (!PyLong_Check(index))
        return wrong_type("index", "an int", index);
    const unsigned long long first = PyLong_AsUnsignedLongLong(index);
    if (PyErr_Occurred() || run->count > CHUNKS_MOST || first > CHUNKS_MOST - run->count) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "index must be from 0 to %llu, not %R", (unsigned long long)(CHUNKS_MOST - run->count), index);
        return -1;
    }
    run->chunked = (struct chunked){self->kernel, self->key, run->nonce.data, self->nonce_size, first};
    return 0;
}

static int run_take(struct run *run, const struct aead_object *self, PyObject *const *values, const char *data_name, size_t overhead)
{
    run->last = values[3] ? PyObject_IsTrue(values[3]) : 0;
    if (run->last < 0 || input_take(&run->nonce, values[0], "base_nonce"))
        return -1;
    if (inputs_take(&run->data, values[2], data_name)) {
        input_release(&run->nonce);
        return -1;
    }
    const int bad = run_check(run, self, values[1], data_name, overhead);
    if (bad)
        run_release(run);
    return bad;
}

static int run_open(const struct run *run, PyObject *self, uint8_t *out)
{
    PyThreadState *thread = run->data.size >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
    const int differs = chunked_open(&run->chunked, run->data.piece, run->data.size, run->last, out);
    if (thread)
        PyEval_RestoreThread(thread);
    if (differs)
        set_invalid_tag(self);
    return differs;
}

const char aead_seal_chunks_doc[] =
    PyDoc_STR("seal_chunks(base_nonce, index, plaintext, last=False)\n--\n\n"
              "Chunks of 16 KiB from number index on, each with its tag, and, where that is the last, what is left as one more.");

PyObject *aead_seal_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"base_nonce", "index", "plaintext", "last"};
    PyObject *values[4];
    struct run run;
    if (arguments("seal_chunks", args, count, keywords, names, 3, 4, values) ||
        run_take(&run, (const struct aead_object *)object, values, names[2], 0))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(run.data.size + run.count * AEAD_TAG));
    if (result) {
        uint8_t *out = bytes_data(result);
        PyThreadState *thread = run.data.size >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
        chunked_seal(&run.chunked, run.data.piece, run.data.size, run.last, out);
        if (thread)
            PyEval_RestoreThread(thread);
    }
    run_release(&run);
    return result;
}

const char aead_open_chunks_doc[] = PyDoc_STR("open_chunks(base_nonce, index, sealed, last=False)\n--\n\n"
                                              "The inverse of seal_chunks; InvalidTag where any chunk does not verify.");

PyObject *aead_open_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"base_nonce", "index", "sealed", "last"};
    PyObject *values[4];
    struct run run;
    if (arguments("open_chunks", args, count, keywords, names, 3, 4, values) ||
        run_take(&run, (const struct aead_object *)object, values, names[2], AEAD_TAG))
        return NULL;
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(run.data.size - run.count * AEAD_TAG));
    if (result && run_open(&run, object, bytes_data(result)))
        Py_CLEAR(result);
    run_release(&run);
    return result;
}

const char aead_verify_chunks_doc[] = PyDoc_STR("verify_chunks(base_nonce, index, sealed, last=False)\n--\n\n"
                                                "InvalidTag where open_chunks would raise it; decrypts nothing.");

PyObject *aead_verify_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords)
{
    static const char *const names[] = {"base_nonce", "index", "sealed", "last"};
    PyObject *values[4];
    struct run run;
    if (arguments("verify_chunks", args, count, keywords, names, 3, 4, values) ||
        run_take(&run, (const struct aead_object *)object, values, names[2], AEAD_TAG))
        return NULL;
    const int differs = run_open(&run, object, NULL);
    run_release(&run);
    return differs ? NULL : Py_NewRef(Py_None);
}
