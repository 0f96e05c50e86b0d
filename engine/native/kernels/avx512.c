#include "../kernel.h"
#include "../lanes/avx512.h"
#include "../lanes/ifma.h"

#define STACK_MOST 2112
#define ROWS_SETS 2
#define COLUMNS_TOGETHER 4
#define COLUMNS_ROUNDS
#define N44_UNROLL 2
#define LANES_WORTH 2
#define LANES_WORTH_UNROLL 4
#include "../bodies/chacha20_columns.h"
#include "../bodies/chacha20_rows.h"
#include "../bodies/poly1305_44.h"

const struct kernel kernel_avx512 = {.name = "avx512", KERNEL_ROWS, KERNEL_COLUMNS, KERNEL_POLY1305};
