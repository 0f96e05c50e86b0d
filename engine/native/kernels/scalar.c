#include "../kernel.h"
#include "../lanes/scalar.h"

#define ROWS_SETS 1
#include "../bodies/chacha20_rows.h"

const struct kernel kernel_scalar = {.name = "scalar", KERNEL_ROWS};
