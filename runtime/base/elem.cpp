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
  auto is_triton_name = [&](std::string_view tl) {  // "fp16" of "float16"
    return text.starts_with("fp") && tl.starts_with("float") && text.substr(2) == tl.substr(5);
  };
  for (int i = 0; i < int(std::size(kInfo)); ++i)
    if (text == kInfo[i].text || text == kInfo[i].tl || is_triton_name(kInfo[i].tl)) return Elem(i);
  if (text == "bool") return Elem::I1;
  return std::nullopt;
}

}  // namespace tegula
