// A C++ function as the source of a kernel.
#include <fmt/format.h>

#include "dsl/cpp_kernel.h"
#include "dsl/embedded/trace.h"
#include "dsl/kernel_source.h"

namespace tegula::detail {

namespace {

using Kind = TracedParam::Kind;

std::string type_text(const ir::Type& type) {
  return fmt::format("{}{}", type.pointer ? "a pointer to " : "", elem_info(type.elem).tl);
}

/// Whether a parameter of this kind may have the type; else what it takes.
std::optional<std::string> expected(const TracedParam& p, const dsl::ArgSpec& arg) {
  const ir::Type& type = arg.type;
  if (arg.is_tuple) return "a parameter of its own for each item: kernels in C++ have no tuples as arguments";
  if (p.kind == Kind::Pointer || p.kind == Kind::Descriptor) {
    const bool is_descriptor = p.kind == Kind::Descriptor;
    if (type.pointer && arg.form.has_value() == is_descriptor && (!p.pointee || *p.pointee == type.elem))
      return std::nullopt;
    const char* what = is_descriptor ? "a tensor descriptor" : "a pointer";
    return p.pointee ? fmt::format("{} {} {}", what, is_descriptor ? "of" : "to", elem_info(*p.pointee).tl)
                     : std::string(what);
  }
  bool fits = !type.pointer && (p.kind == Kind::Int     ? is_integer(type.elem) && type.elem != Elem::I1
                                : p.kind == Kind::Float ? is_float(type.elem)
                                                        : type.elem == Elem::I1);
  if (fits) return std::nullopt;
  return p.kind == Kind::Int ? "an integer" : p.kind == Kind::Float ? "a floating-point number" : "a bool";
}

class Args : public TracedArgs {
 public:
  Args(Trace& trace, const std::vector<TracedParam>& params, const dsl::Specialization& spec)
      : trace_(trace), params_(params), values_(params.size()), constants_(params.size()) {
    for (size_t i = 0; i < params.size(); ++i) {
      bind(i, spec);
      constants_[i] = constant_of(values_[i]);
    }
  }

  Tile tile(size_t index) const override { return trace_.make(values_[index]); }
  const Constexpr* constant(size_t index) const override {
    const std::optional<Constexpr>& constant = constants_[index];
    return constant ? &*constant : nullptr;
  }

 private:
  static std::optional<Constexpr> constant_of(const dsl::Val& v) {
    if (const auto* b = v.get_if<bool>()) return *b;
    if (const auto* i = v.get_if<dsl::Int>()) return i->clamped();
    if (const auto* d = v.get_if<double>()) return *d;
    if (const auto* s = v.get_if<std::string>()) return *s;
    if (const auto* t = v.get_if<dsl::DType>()) return t->type.elem;
    if (v.is<dsl::None>()) return Constexpr();
    return std::nullopt;
  }
  void bind(size_t i, const dsl::Specialization& spec) {
    const TracedParam& p = params_[i];
    dsl::Sema& s = trace_.sema();
    for (const dsl::ArgSpec& arg : spec.args) {
      if (arg.name != p.param.name) continue;
      if (arg.constant) {
        values_[i] = *arg.constant;
      } else if (p.kind == Kind::Constant) {
        s.error(fmt::format("'{}' is a Const parameter, but only its type {} is given", arg.name, type_text(arg.type)),
                "give its value");
      } else if (auto wanted = expected(p, arg)) {
        s.error(fmt::format("the argument '{}' is {}, expected {}", arg.name,
                            arg.is_tuple ? "a tuple"
                            : arg.form   ? "a tensor descriptor"
                                         : type_text(arg.type),
                            *wanted));
      } else {
        values_[i] = dsl::add_param(trace_.func(), s.builder, arg);
      }
      return;
    }
    if (!p.param.has_default) s.error(fmt::format("the argument '{}' has no type", p.param.name));
  }

  Trace& trace_;
  const std::vector<TracedParam>& params_;
  std::vector<dsl::Val> values_;
  std::vector<std::optional<Constexpr>> constants_;  ///< those of them that are known
};

class TracedSource : public dsl::KernelSource {
 public:
  TracedSource(std::string name, std::vector<TracedParam> params, Function<void(const TracedArgs&)> body, Loc loc)
      : name_(std::move(name)), traced_(std::move(params)), body_(std::move(body)), loc_(loc) {
    for (const TracedParam& p : traced_) params_.push_back(p.param);
  }

  const std::string& name() const override { return name_; }
  const std::vector<KernelParam>& params() const override { return params_; }

  std::unique_ptr<ir::Func> build(const dsl::Specialization& spec, Diagnostics& diags,
                                  std::vector<std::string>& prints) const override {
    Trace::LoopTiles loop_tiles;
    for (int i = 0; i < kMaxRecordings; ++i) {
      Trace trace(name_, loc_, loop_tiles);
      record(trace, spec);
      auto repeat_with = trace.repeat_with();
      if (!repeat_with) {
        prints = std::move(trace.sema().prints);
        return trace.finish(diags);
      }
      loop_tiles = std::move(*repeat_with);
    }
    diags.error(loc_, fmt::format("the kernel '{}' is another one each time that it is recorded", name_))
        .with_hint("its function must depend on nothing but its parameters");
    return nullptr;
  }

 private:
  static constexpr int kMaxRecordings = 1000;

  void record(Trace& trace, const dsl::Specialization& spec) const {
    spec.set_options(trace.func(), trace.sema());
    body_(Args(trace, traced_, spec));
  }

  std::string name_;
  std::vector<TracedParam> traced_;
  std::vector<KernelParam> params_;
  Function<void(const TracedArgs&)> body_;
  Loc loc_;
};

}  // namespace

Shared<const dsl::KernelSource> traced_source(std::string name, std::vector<TracedParam> params,
                                              Function<void(const TracedArgs&)> body, const char* file, int line) {
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (params[i].param.name == params[k].param.name)
        throw LaunchError(fmt::format("kernel '{}' has two parameters '{}'", name, params[i].param.name));
  return Shared<const TracedSource>::make(std::move(name), std::move(params), std::move(body),
                                          Loc{intern_file(file), line, 0, 0});
}

void wrong_constant(const char* name, const char* expected, const Constexpr& found) {
  throw LaunchError(fmt::format("the constexpr parameter '{}' is {}, expected {}", name, to_string(found), expected));
}

}  // namespace tegula::detail
