// SPDX-License-Identifier: Apache-2.0

// In a folder of its own; no flags of pkg-config are needed, as for CPQ.
#include <mariadb/mysql.h>
