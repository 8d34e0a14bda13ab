// Layouts as keys of unordered containers.
#pragma once

#include "codegen/layout/linear_layout.h"

namespace tegula {

struct LayoutHash {
  using is_transparent = void;
  size_t operator()(const LinearLayout& layout) const {
    size_t hash = layout.outs().size();
    const auto add = [&](int64_t number) { hash = (hash ^ size_t(number)) * 0x9E3779B97F4A7C15 + (hash >> 29); };
    for (const LinearLayout::In& in : layout.ins()) {
      add(int64_t(in.dim));
      add(int64_t(in.bases.size()));
      for (const LinearLayout::Basis& basis : in.bases)
        for (int32_t coordinate : basis) add(coordinate);
      for (const LinearLayout::Repeat& repeat : in.repeats) add(repeat.count);
    }
    for (const LinearLayout::Out& out : layout.outs()) add(out.size);
    return hash;
  }
  size_t operator()(const LayoutRef& layout) const { return (*this)(*layout); }
};

struct EqualLayouts {
  using is_transparent = void;
  bool operator()(const LayoutRef& a, const LayoutRef& b) const { return *a == *b; }
  bool operator()(const LinearLayout& a, const LayoutRef& b) const { return a == *b; }
  bool operator()(const LayoutRef& a, const LinearLayout& b) const { return *a == b; }
};

}  // namespace tegula
