#include "arguments.h"

#include <string.h>

static PyObject *type_name(PyObject *object)
{
    return PyType_GetName(Py_TYPE(object));
}

int wrong_type(const char *name, const char *wanted, PyObject *came)
{
    PyObject *type = type_name(came);
    if (type)
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %U", name, wanted, type);
    Py_XDECREF(type);
    return -1;
}

int view_of(Py_buffer *view, PyObject *object, int flags, const char *name)
{
    if (!PyObject_CheckBuffer(object))
        return wrong_type(name, "bytes-like", object);
    if (!PyObject_GetBuffer(object, view, flags))
        return 0;
    if (PyErr_ExceptionMatches(PyExc_BufferError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError, "%s must be contiguous%s", name, flags & PyBUF_WRITABLE ? " and writable" : "");
    }
    return -1;
}

int input_take_view(struct input *input, PyObject *object, const char *name)
{
    if (view_of(&input->view, object, PyBUF_SIMPLE, name))
        return -1;
    input->held = 1;
    input->data = input->view.buf;
    input->size = (size_t)input->view.len;
    return 0;
}

int fixed_take(uint8_t *out, size_t size, PyObject *object, const char *name)
{
    struct input input;
    if (input_take(&input, object, name))
        return -1;
    const int right = input.size == size;
    if (right)
        memcpy(out, input.data, size);
    else
        PyErr_Format(PyExc_ValueError, "%s must be %zu bytes, not %zu", name, size, input.size);
    input_release(&input);
    return right ? 0 : -1;
}

int arguments(const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords, const char *const *names, int needed,
                     int most, PyObject **values)
{
    if (count > most) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %d arguments, not %zd", function, most, count);
        return -1;
    }
    for (int i = 0; i < most; i++)
        values[i] = i < count ? args[i] : NULL;
    const Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *keyword = PyTuple_GetItem(keywords, k);
        int i = 0;
        while (i < most && PyUnicode_CompareWithASCIIString(keyword, names[i]))
            i++;
        if (i == most || values[i]) {
            PyErr_Format(PyExc_TypeError, i == most ? "%s() has no argument '%U'" : "%s() got argument '%U' twice", function, keyword);
            return -1;
        }
        values[i] = args[count + k];
    }
    for (int i = 0; i < needed; i++)
        if (!values[i]) {
            PyErr_Format(PyExc_TypeError, "%s() wants the argument '%s'", function, names[i]);
            return -1;
        }
    return 0;
}

int too_long(const char *name, uint64_t most, size_t came)
{
    PyErr_Format(PyExc_ValueError, "%s must be at most %llu bytes, so that the block counter never wraps, not %zu", name,
                 (unsigned long long)most, came);
    return -1;
}
