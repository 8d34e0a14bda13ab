#include "runtime/image_format.h"

#include <algorithm>
#include <iterator>

#include "runtime/base/byte_stream.h"

namespace tegula {

namespace {

constexpr int kElemCount = 0
#define TEGULA_ELEM(Name, text, tl, bits, kind) +1
#include "runtime/base/elem.def"
    ;

void write(ByteWriter& w, const std::vector<int32_t>& numbers) {
  w.number(uint64_t(numbers.size()));
  for (int32_t n : numbers) w.number(n);
}

std::vector<int32_t> read_numbers(ByteReader& r) {
  std::vector<int32_t> numbers(r.count());
  for (int32_t& n : numbers) n = r.number<int32_t>();
  return numbers;
}

Elem read_elem(ByteReader& r) {
  const uint8_t elem = r.number<uint8_t>();
  r.require(elem < kElemCount);
  return r.good() ? Elem(elem) : Elem();
}

void write(ByteWriter& w, const TensorMaps& maps) {
  write_steps(w, maps.steps);
  w.number(uint64_t(maps.maps.size()));
  for (const ImageTensorMap& map : maps.maps) {
    w.number(uint8_t(map.elem));
    w.number(map.swizzle);
    w.number(map.base);
    w.number(uint8_t(map.may_lie_outside));
    for (const auto* numbers : {&map.box, &map.extents, &map.strides, &map.non_negative}) write(w, *numbers);
  }
}

TensorMaps read_tensor_maps(ByteReader& r) {
  TensorMaps maps;
  maps.steps = read_steps(r);
  maps.maps.resize(r.count());
  for (ImageTensorMap& map : maps.maps) {
    map.elem = read_elem(r);
    map.swizzle = r.number<int32_t>();
    map.base = r.number<int32_t>();
    map.may_lie_outside = r.number<uint8_t>() != 0;
    for (auto* numbers : {&map.box, &map.extents, &map.strides, &map.non_negative}) *numbers = read_numbers(r);
  }
  return maps;
}

void write(ByteWriter& w, const Loc& loc) {
  w.bytes(loc.file ? *loc.file : std::string());
  for (int number : {loc.line, loc.column, loc.end_column}) w.number(int32_t(number));
}

Loc read_loc(ByteReader& r) {
  Loc loc;
  if (const auto file = r.bytes<std::string>(); !file.empty()) loc.file = intern_file(file);
  for (int* number : {&loc.line, &loc.column, &loc.end_column}) *number = r.number<int32_t>();
  return loc;
}

// Each file once; sites name it by its place in the list, counted from 1; 0 is no file.
void write_sites(ByteWriter& w, const std::vector<Loc>& sites) {
  std::vector<const std::string*> files;
  for (const Loc& site : sites)
    if (site.file && std::find(files.begin(), files.end(), site.file) == files.end()) files.push_back(site.file);
  w.number(uint64_t(files.size()));
  for (const std::string* file : files) w.bytes(*file);
  w.number(uint64_t(sites.size()));
  for (const Loc& site : sites) {
    auto at = std::find(files.begin(), files.end(), site.file);
    w.number(uint32_t(site.file ? at - files.begin() + 1 : 0));
    w.number(int32_t(site.line));
    w.number(int32_t(site.column));
    w.number(int32_t(site.end_column));
  }
}

std::vector<Loc> read_sites(ByteReader& r) {
  std::vector<const std::string*> files(r.count() + 1, nullptr);
  for (size_t i = 1; i < files.size(); ++i) files[i] = intern_file(r.bytes<std::string>());
  std::vector<Loc> sites(r.count());
  for (Loc& site : sites) {
    uint32_t file = r.number<uint32_t>();
    r.require(file < files.size());
    if (r.good()) site.file = files[file];
    site.line = r.number<int32_t>();
    site.column = r.number<int32_t>();
    site.end_column = r.number<int32_t>();
  }
  return sites;
}

}  // namespace

void write_steps(ByteWriter& w, const std::vector<LaunchStep>& steps) {
  w.number(uint64_t(steps.size()));
  for (const LaunchStep& step : steps) {
    w.number(uint8_t(step.kind));
    w.number(uint8_t(step.elem));
    for (int32_t operand : step.operands) w.number(operand);
    w.number(step.number);
  }
}

std::vector<LaunchStep> read_steps(ByteReader& r) {
  std::vector<LaunchStep> steps(r.count());
  for (LaunchStep& step : steps) {
    step.kind = LaunchStep::Kind(r.number<uint8_t>());
    step.elem = read_elem(r);
    for (int32_t& operand : step.operands) operand = r.number<int32_t>();
    step.number = r.number<int64_t>();
  }
  return steps;
}

std::string to_bytes(const KernelImage& image) {
  ByteWriter w;
  w.number(kImageFormatVersion);
  w.bytes(image.kernel);
  w.bytes(image.target);
  w.number(uint64_t(image.params.size()));
  for (const ImageParam& p : image.params) {
    w.bytes(p.name);
    w.number(uint8_t(p.elem));
    w.number(uint8_t(p.pointer));
    w.number(p.divisible_by);
  }
  w.number(uint64_t(image.constants.size()));
  for (const ImageConstant& c : image.constants) {
    w.number(int32_t(c.position));
    w.bytes(c.name);
    w.number(uint8_t(c.pointer));
    w.number(c.value);
  }
  write(w, image.tensor_maps);
  w.number(int32_t(image.num_warps));
  w.number(int32_t(image.copy_warps));
  w.number(int32_t(image.num_ctas));
  w.number(image.shared_bytes);
  w.number(uint8_t(image.dependent_launch));
  w.number(image.few_programs);
  w.number(uint8_t(image.program_loop));
  w.number(uint8_t(image.cooperative));
  w.bytes(image.ptx);
  w.bytes(image.cubin);
  w.bytes(image.bitcode);

  write_sites(w, image.sites);
  w.number(int32_t(image.registers));
  w.number(int32_t(image.spill_bytes));
  w.number(uint64_t(image.fewer_stages.size()));
  for (const FewerStages& loop : image.fewer_stages) {
    write(w, loop.loc);
    for (int number : {loop.asked, loop.given}) w.number(int32_t(number));
  }
  w.number(uint64_t(image.transfers.size()));
  for (const Transfer& transfer : image.transfers) {
    write(w, transfer.loc);
    w.bytes(transfer.by);
    w.bytes(transfer.why_not);
  }
  w.number(uint64_t(image.asserts.size()));
  for (const ImageAssert& assert : image.asserts) {
    write(w, assert.loc);
    w.bytes(assert.text);
  }
  return w.take();
}

std::optional<KernelImage> image_from_bytes(std::string_view bytes) {
  ByteReader r(bytes);
  if (r.number<uint32_t>() != kImageFormatVersion) return std::nullopt;
  KernelImage image;
  image.kernel = r.bytes<std::string>();
  image.target = r.bytes<std::string>();
  image.params.resize(r.count());
  for (ImageParam& p : image.params) {
    p.name = r.bytes<std::string>();
    p.elem = read_elem(r);
    p.pointer = r.number<uint8_t>() != 0;
    p.divisible_by = r.number<int64_t>();
  }
  image.constants.resize(r.count());
  int previous = -1;
  for (ImageConstant& c : image.constants) {
    c.position = r.number<int32_t>();
    r.require(c.position > previous && size_t(c.position) < image.params.size() + image.constants.size());
    previous = c.position;
    c.name = r.bytes<std::string>();
    c.pointer = r.number<uint8_t>() != 0;
    c.value = r.number<int64_t>();
  }
  image.tensor_maps = read_tensor_maps(r);
  r.require(image.tensor_maps.are_valid(image.params.size()));
  image.num_warps = r.number<int32_t>();
  image.copy_warps = r.number<int32_t>();
  image.num_ctas = r.number<int32_t>();
  r.require(image.num_ctas > 0);
  image.shared_bytes = r.number<int64_t>();
  image.dependent_launch = r.number<uint8_t>() != 0;
  image.few_programs = r.number<int64_t>();
  r.require(image.few_programs >= 0);
  image.program_loop = r.number<uint8_t>() != 0;
  image.cooperative = r.number<uint8_t>() != 0;
  image.ptx = r.bytes<std::string>();
  image.cubin = r.bytes<std::vector<uint8_t>>();
  image.bitcode = r.bytes<std::vector<uint8_t>>();

  image.sites = read_sites(r);
  image.registers = r.number<int32_t>();
  image.spill_bytes = r.number<int32_t>();
  image.fewer_stages.resize(r.count());
  for (FewerStages& loop : image.fewer_stages) {
    loop.loc = read_loc(r);
    for (int* number : {&loop.asked, &loop.given}) *number = r.number<int32_t>();
  }
  image.transfers.resize(r.count());
  for (Transfer& transfer : image.transfers) {
    transfer.loc = read_loc(r);
    transfer.by = r.bytes<std::string>();
    transfer.why_not = r.bytes<std::string>();
  }
  image.asserts.resize(r.count());
  for (ImageAssert& assert : image.asserts) {
    assert.loc = read_loc(r);
    assert.text = r.bytes<std::string>();
  }
  if (!r.good() || !r.at_end()) return std::nullopt;
  return image;
}

}  // namespace tegula
