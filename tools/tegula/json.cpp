#include "tools/tegula/json.h"

#include <fmt/format.h>
#include <unistd.h>

#include <regex>
#include <utility>

namespace tegula::cli {

namespace {

// "machine code", "ptx", "emulator"
std::vector<std::string> forms_of(const KernelImage& image) {
  std::vector<std::string> forms;
  if (!image.cubin.empty()) forms.push_back("machine code");
  if (!image.ptx.empty()) forms.push_back("ptx");
  if (!image.bitcode.empty()) forms.push_back("emulator");
  return forms;
}

Json arguments_json(const KernelImage& image) {
  Json arguments = Json::array();
  size_t param = 0;
  auto constant = image.constants.begin();
  for (size_t i = 0; i < image.params.size() + image.constants.size(); ++i) {
    if (constant != image.constants.end() && size_t(constant->position) == i) {
      const Json value = constant->pointer ? Json() : Json(constant->value);
      arguments.push_back({{"name", constant->name}, {"compiled_in", value}});
      ++constant;
      continue;
    }
    const ImageParam& p = image.params[param++];
    arguments.push_back({{"name", p.name},
                         {"type", fmt::format("{}{}", p.pointer ? "*" : "", elem_info(p.elem).text)},
                         {"bytes", p.pointer ? 8 : elem_bytes(p.elem)},
                         {"multiple_of", p.divisible_by}});
  }
  return arguments;
}

}  // namespace

Json image_json(const KernelImage& image) {
  return {{"kernel", image.kernel},
          {"target", image.target},
          {"forms", forms_of(image)},
          {"arguments", arguments_json(image)},
          {"tensor_maps", image.tensor_maps.maps.size()},
          {"threads", image.threads()},
          {"num_warps", image.num_warps},
          {"copy_warps", image.copy_warps},
          {"num_ctas", image.num_ctas},
          {"shared_bytes", image.shared_bytes},
          {"registers", image.registers < 0 ? Json() : Json(image.registers)},
          {"spill_bytes", image.spill_bytes < 0 ? Json() : Json(image.spill_bytes)},
          {"waits_for_earlier_kernels", image.dependent_launch},
          {"cooperative", image.cooperative}};
}

Json packaged_json(const PackagedKernel& kernel) {
  Json codes = Json::array();
  for (const PackagedCode& code : kernel.codes) codes.push_back(image_json(code.image));
  Json choices = Json::array();
  for (const PackagedChoice& choice : kernel.choices) {
    Json when = Json::object();
    for (const ArgumentValue& v : choice.when) std::visit([&](auto value) { when[v.name] = value; }, v.value);
    choices.push_back({{"gpu", choice.gpu}, {"when", when}});
  }
  return {{"name", kernel.name},
          {"config", kernel.config},
          {"grid", kernel.grid ? Json(kernel.grid.text) : Json()},
          {"chosen_for", choices},
          {"codes", codes}};
}

Json message_json(const std::string& text) {
  static const std::regex kPlace("([^\\s:,'\"()]+):(\\d+):(\\d+)");
  std::smatch found;
  const bool has_place = std::regex_search(text, found, kPlace);
  return {{"file", has_place ? Json(found[1].str()) : Json()},
          {"line", has_place ? std::stoi(found[2]) : 0},
          {"column", has_place ? std::stoi(found[3]) : 0},
          {"message", text}};
}

Json mistakes_json(const std::exception& error) {
  Json mistakes = Json::array();
  const auto* compile_error = dynamic_cast<const CompileError*>(&error);
  if (!compile_error) return Json::array({message_json(error.what())});
  for (const Diag& d : compile_error->diags()) {
    if (d.severity != Severity::Error) continue;
    mistakes.push_back({{"file", d.loc.file ? Json(*d.loc.file) : Json()},
                        {"line", d.loc.line},
                        {"column", d.loc.column},
                        {"message", d.message},
                        {"hint", d.hint}});
  }
  return mistakes;
}

Warnings::Warnings() {
  before_ = set_message_handler([this](MessageKind kind, std::string_view text) {
    fmt::print(stderr, "{}{}\n", kind == MessageKind::Warning ? "tegula: warning: " : "", text);
    if (kind == MessageKind::Warning) list.push_back(message_json(std::string(text)));
  });
}

Warnings::~Warnings() { set_message_handler(before_); }

KernelPrints::KernelPrints() : kept_(std::tmpfile()) {
  if (!kept_) throw FileError("a temporary file, for what the kernel prints, cannot be made");
  std::fflush(stdout);
  standard_output_ = dup(STDOUT_FILENO);
  dup2(fileno(kept_), STDOUT_FILENO);
}

KernelPrints::~KernelPrints() {
  std::fflush(stdout);
  dup2(standard_output_, STDOUT_FILENO);
  close(standard_output_);
  std::rewind(kept_);
  std::string line;
  for (int c; (c = std::fgetc(kept_)) != EOF;) {
    if (c != '\n') {
      line += char(c);
      continue;
    }
    lines().push_back(std::exchange(line, {}));
  }
  if (!line.empty()) lines().push_back(line);
  std::fclose(kept_);
}

Json& KernelPrints::lines() {
  static Json lines = Json::array();
  return lines;
}

void print_json(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

void print_line(const Json& json) { fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace)); }

}  // namespace tegula::cli
