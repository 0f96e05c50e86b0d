#include "../kernel.h"
#include "../lanes/avx512.h"
#include "../lanes/wide26.h"

#define ROWS_SETS 2
#define COLUMNS_TOGETHER 4
#define COLUMNS_ROUNDS
#define N26_UNROLL 2
#define LANES_WORTH 4
#define LANES_WORTH_UNROLL 4
#include "../bodies/chacha20_columns.h"
#include "../bodies/chacha20_rows.h"
#include "../bodies/poly1305_26.h"

const struct kernel kernel_avx512f = {.name = "avx512f", KERNEL_ROWS, KERNEL_COLUMNS, KERNEL_POLY1305};
