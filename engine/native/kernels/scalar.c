#include "../kernel.h"
#include "../lanes/scalar.h"

#define ROWS_SETS 1
#include "../bodies/chacha20_rows.h"
#include "../bodies/poly1305_write.h"

const struct kernel kernel_scalar = {.name = "scalar", KERNEL_ROWS, KERNEL_WRITE};
