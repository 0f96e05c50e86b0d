#include "../kernel.h"
#include "../lanes/vx.h"
#include "../lanes/vxe44.h"

#define ROWS_SETS 2
#define COLUMNS_TOGETHER 4
#define COLUMNS_ROUNDS UNROLL
#define N44_UNROLL 2
#define LANES_WORTH 4
#define LANES_WORTH_UNROLL 16
#include "../bodies/chacha20_columns.h"
#include "../bodies/chacha20_rows.h"
#include "../bodies/poly1305_44.h"

const struct kernel kernel_vxe = {.name = "vxe", KERNEL_ROWS, KERNEL_COLUMNS, KERNEL_POLY1305};
