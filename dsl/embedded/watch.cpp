#include "dsl/debug.h"
#include "dsl/embedded/trace.h"

namespace tegula {

void watch(const char* name, const Operand& x) {
  detail::Trace& trace = detail::Trace::current();
  trace.at(x.file(), x.line());
  dsl::watch_statement(trace.sema());
  dsl::watch_name(trace.sema(), name, trace.value_of(x));
}

}  // namespace tegula
