#include "runtime/base/elem.h"

#include <iterator>

namespace tegula {

namespace {
constexpr ElemInfo kInfo[] = {
#define TEGULA_ELEM(Name, text, tl, bits, kind) {#text, #tl, bits, ElemKind::kind},
#include "runtime/base/elem.def"
};
}  // namespace

const ElemInfo& elem_info(Elem elem) { return kInfo[int(elem)]; }

std::optional<Elem> elem_from_text(std::string_view text) {
  for (int i = 0; i < int(std::size(kInfo)); ++i)
    if (text == kInfo[i].text || text == kInfo[i].tl) return Elem(i);
  if (text == "fp16") return Elem::F16;
  if (text == "fp32") return Elem::F32;
  if (text == "fp64") return Elem::F64;
  if (text == "bool") return Elem::I1;
  return std::nullopt;
}

}  // namespace tegula
