/* Arguments of the CPython binding: what callers hand in, checked, in one wording for all. */
#ifndef SEALANE_ARGUMENTS_H
#define SEALANE_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* From this many bytes on the GIL is released: below, handing it over costs more than the work. docs/performance.md has the measure. */
enum { RELEASE_GIL_FROM = 16 * 1024 };

/* A bytes-like argument. bytes objects, the common case, need no Py_buffer. */
struct input {
    const uint8_t *data;
    size_t size;
    int held;
    Py_buffer view;
};

static const struct input EMPTY = {.data = (const uint8_t *)"", .size = 0};

static inline void input_release(struct input *input)
{
    if (input->held)
        PyBuffer_Release(&input->view);
}

int input_take_view(struct input *input, PyObject *object, const char *name);

static inline int input_take(struct input *input, PyObject *object, const char *name)
{
    input->held = 0;
    if (!PyBytes_CheckExact(object))
        return input_take_view(input, object, name);
    input->data = (const uint8_t *)PyBytes_AsString(object);
    input->size = (size_t)PyBytes_Size(object);
    return 0;
}

/* All of these set an exception and return -1, or 0 where all is well. */
int wrong_type(const char *name, const char *wanted, PyObject *came);
int view_of(Py_buffer *view, PyObject *object, int flags, const char *name);
int too_long(const char *name, uint64_t most, size_t came);

/* Of exactly `size` bytes, copied out. */
int fixed_take(uint8_t *out, size_t size, PyObject *object, const char *name);

/* Positional and keyword arguments of a fast call into `values`; the first `needed` must be there, the others are left NULL. */
int arguments(const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords, const char *const *names, int needed,
              int most, PyObject **values);

static inline uint8_t *bytes_data(PyObject *bytes)
{
    return (uint8_t *)PyBytes_AsString(bytes);
}

#define FAST(name, function, doc) {name, (PyCFunction)(void (*)(void))(function), METH_FASTCALL | METH_KEYWORDS, doc}

#endif
