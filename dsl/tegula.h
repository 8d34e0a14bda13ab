// The header that users include.
#pragma once

#include "dsl/config.h"
#include "dsl/cpp_kernel.h"
#include "dsl/grid.h"
#include "dsl/hooks.h"
#include "dsl/kernel.h"
#include "dsl/program.h"
#include "runtime/base/error.h"
#include "runtime/base/float16.h"
#include "runtime/base/float8.h"
#include "runtime/base/internal_error.h"
#include "runtime/base/messages.h"
#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/memory.h"
#include "runtime/stream.h"
#include "runtime/timing.h"
