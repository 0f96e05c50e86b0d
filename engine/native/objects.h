/* What the files of the CPython binding know of each other's objects. */
#ifndef SEALANE_OBJECTS_H
#define SEALANE_OBJECTS_H

#include "arguments.h"
#include "kernel.h"

struct module_state {
    PyObject *invalid_tag;
    PyTypeObject *aead, *poly1305, *mac_key;
    const struct kernel *kernel; /* what objects made from now on use */
};

struct aead_object {
    PyObject_HEAD
    const struct kernel *kernel;
    uint8_t *key;
    size_t nonce_size;
};

/* Sets InvalidTag as the module of this object's type knows it. */
void set_invalid_tag(PyObject *object);

/* Methods of Aead over many chunks: module_chunked.c. */
extern const char aead_seal_chunks_doc[], aead_open_chunks_doc[], aead_verify_chunks_doc[];
PyObject *aead_seal_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *aead_open_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords);
PyObject *aead_verify_chunks_method(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *keywords);

#endif
