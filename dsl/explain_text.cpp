// An Explanation as text, JSON and a plot.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "dsl/explain.h"

namespace tegula {

namespace {

// ---- Text

std::string bytes_text(int64_t bytes) {
  const double b = double(bytes);
  if (b < 1e4) return fmt::format("{} B", bytes);
  if (b < 1e7) return fmt::format("{:.2f} KB", b / 1e3);
  if (b < 1e10) return fmt::format("{:.2f} MB", b / 1e6);
  return fmt::format("{:.2f} GB", b / 1e9);
}

std::string count_text(double n) {
  if (n < 1e4) return fmt::format("{:.0f}", n);
  if (n < 1e9) return fmt::format("{:.4g} M", n / 1e6);
  return fmt::format("{:.4g} G", n / 1e9);
}

void add_traffic(std::string& out, const Explanation& e) {
  const int64_t n = std::max<int64_t>(1, e.programs);
  out += fmt::format("traffic ({})\n", e.counted_programs == e.programs
                                           ? "counted for every program"
                                           : fmt::format("counted for {} programs", e.counted_programs));
  out += fmt::format("  from memory {}, to memory {}; through the L2 cache {} and {}\n", bytes_text(e.from_memory),
                     bytes_text(e.to_memory), bytes_text(e.read), bytes_text(e.written));
  out += fmt::format("  a program reads {} and writes {}\n", bytes_text(e.read / n), bytes_text(e.written / n));
  if (e.read + e.written > 0) {
    const double waste =
        1 - double(e.useful_read + e.useful_written) / double(std::max<int64_t>(1, e.read + e.written));
    if (waste > 0.05)
      out += fmt::format("  {:.0f} % of these bytes are in sectors of 32 bytes that are not wanted in full\n",
                         100 * waste);
  }
  for (const Explanation::Array& a : e.arrays)
    out += fmt::format("  {:<16} from memory {:>10}  to memory {:>10}  through L2 {:>10} {:>10}\n", a.name,
                       bytes_text(a.from_memory), bytes_text(a.to_memory), bytes_text(a.read), bytes_text(a.written));
  for (const std::string& a : e.assumptions) out += fmt::format("  note: {}\n", a);
}

void add_work(std::string& out, const Explanation& e) {
  out += "operations\n";
  if (e.units.empty()) out += "  none but moves of data\n";
  for (const Explanation::Unit& u : e.units)
    out += fmt::format("  {:<28} {:>10}  {:.4g} a byte; {} from {:.4g} a byte on ({:.4g} T/s)\n", u.name,
                       count_text(u.operations), u.intensity,
                       u.intensity < u.ridge ? "memory is the limit, this unit" : "this unit is the limit", u.ridge,
                       u.peak / 1e12);
}

void add_resources(std::string& out, const Explanation& e) {
  out += fmt::format("resources\n  {} threads, {} registers a thread{}{}, {} of shared memory\n", e.threads,
                     e.registers, e.registers_estimated ? " (estimated: ptxas did not run)" : "",
                     e.spill_bytes < 0 ? "" : fmt::format(", {} bytes spilled", e.spill_bytes),
                     bytes_text(e.shared_bytes));
  out += fmt::format("  {} programs a multiprocessor, occupancy {:.2f}, limited by {}; {:.2f} waves\n",
                     e.programs_per_sm, e.occupancy, e.occupancy_limit, e.waves);
  if (e.shared_accesses > 0 && e.bank_conflicts.empty())
    out += fmt::format("  no bank conflicts in {} accesses to shared memory\n", e.shared_accesses);
  for (const std::string& c : e.bank_conflicts) out += fmt::format("  bank conflict: {}\n", c);
}

void add_accesses(std::string& out, const Explanation& e) {
  out += "accesses\n";
  for (const Explanation::Access& a : e.accesses) {
    out += fmt::format("  {}: {}{}, {} bytes {}", a.place, a.what, a.array.empty() ? "" : " " + a.array, a.bytes,
                       a.what.starts_with("bulk") ? "a box" : "an instruction");
    if (a.efficiency < 0.95) out += fmt::format(", {:.0f} % of its sectors used", 100 * a.efficiency);
    out += a.limit.empty() ? "\n" : fmt::format("\n    {}\n", a.limit);
  }
  for (const Explanation::Loop& l : e.loops) {
    out += fmt::format("  {}: loop, {} stage{}{}\n", l.place, l.stages, l.stages == 1 ? "" : "s",
                       l.by.empty() ? "" : ", by " + l.by);
    if (!l.why_not_more.empty()) out += fmt::format("    {}\n", l.why_not_more);
  }
}

// ---- JSON

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", int(c));
    else
      out += c;
  }
  return out + '"';
}

/// An object under construction.
class JsonObject {
 public:
  JsonObject& raw(const char* name, const std::string& value) {
    text_ += fmt::format("{}\"{}\": {}", text_.size() > 1 ? ", " : "", name, value);
    return *this;
  }
  JsonObject& add(const char* name, const std::string& value) { return raw(name, quoted(value)); }
  JsonObject& add(const char* name, const char* value) { return raw(name, quoted(value)); }
  JsonObject& add(const char* name, bool value) { return raw(name, value ? "true" : "false"); }
  JsonObject& add(const char* name, int64_t value) { return raw(name, fmt::format("{}", value)); }
  JsonObject& add(const char* name, int value) { return add(name, int64_t(value)); }
  JsonObject& add(const char* name, double value) {
    return raw(name, std::isfinite(value) ? fmt::format("{}", value) : "null");
  }
  std::string text() const { return text_ + "}"; }

 private:
  std::string text_ = "{";
};

template <class T, class F>
std::string list(const std::vector<T>& items, F one) {
  std::string out = "[";
  for (const T& item : items) out += (out.size() > 1 ? ", " : "") + one(item);
  return out + "]";
}

std::string json_of(const Explanation::Array& a) {
  return JsonObject()
      .add("name", a.name)
      .add("read", a.read)
      .add("written", a.written)
      .add("from_memory", a.from_memory)
      .add("to_memory", a.to_memory)
      .text();
}

std::string json_of(const Explanation::Access& a) {
  return JsonObject()
      .add("place", a.place)
      .add("what", a.what)
      .add("array", a.array)
      .add("bytes", a.bytes)
      .add("efficiency", a.efficiency)
      .add("limit", a.limit)
      .text();
}

std::string json_of(const Explanation::Loop& l) {
  return JsonObject()
      .add("place", l.place)
      .add("stages", l.stages)
      .add("by", l.by)
      .add("why_not_more", l.why_not_more)
      .text();
}

std::string json_of(const Explanation::Unit& u) {
  return JsonObject()
      .add("name", u.name)
      .add("operations", u.operations)
      .add("peak", u.peak)
      .add("intensity", u.intensity)
      .add("ridge", u.ridge)
      .text();
}

// ---- Plot

/// A plot with logarithmic axes, in powers of ten.
class LogPlot {
 public:
  LogPlot(double x0, double x1, double y0, double y1) : x0_(x0), x1_(x1), y0_(y0), y1_(y1) {
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kWidth, kHeight);
    for (double x = std::ceil(x0); x <= x1; ++x) {
      line(std::pow(10, x), std::pow(10, y0), std::pow(10, x), std::pow(10, y1), "#dddddd");
      text(px(x), kHeight - 34, "middle", fmt::format("{:g}", std::pow(10, x)));
    }
    for (double y = std::ceil(y0); y <= y1; ++y) {
      line(std::pow(10, x0), std::pow(10, y), std::pow(10, x1), std::pow(10, y), "#dddddd");
      text(kLeft - 8, py(y) + 4, "end", fmt::format("{:g}", std::pow(10, y)));
    }
  }

  void line(double x1, double y1, double x2, double y2, const char* colour, double width = 1) {
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
        px(std::log10(x1)), py(std::log10(y1)), px(std::log10(x2)), py(std::log10(y2)), colour, width);
  }
  void point(double x, double y, const char* colour, const std::string& label) {
    svg_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", px(std::log10(x)),
                        py(std::log10(y)), colour);
    text(px(std::log10(x)) + 9, py(std::log10(y)) + 4, "start", label);
  }
  void label(double x, double y, const std::string& what) {
    text(px(std::log10(x)), py(std::log10(y)) - 6, "end", what);
  }
  void title(const std::string& what) { text(kLeft, 24, "start", what); }
  void axes(const std::string& x, const std::string& y) {
    text(kLeft + (kWidth - kLeft - kRight) / 2, kHeight - 12, "middle", x);
    svg_ += fmt::format("<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                        kHeight / 2, y);
  }
  std::string svg() const { return svg_ + "</svg>\n"; }

 private:
  static constexpr double kWidth = 760, kHeight = 440, kLeft = 80, kRight = 40, kTop = 44, kBottom = 56;
  double px(double x) const { return kLeft + (x - x0_) / (x1_ - x0_) * (kWidth - kLeft - kRight); }
  double py(double y) const { return kTop + (y1_ - y) / (y1_ - y0_) * (kHeight - kTop - kBottom); }
  void text(double x, double y, const char* anchor, const std::string& what) {
    std::string escaped;
    for (char c : what) escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped);
  }
  double x0_, x1_, y0_, y1_;
  std::string svg_;
};

}  // namespace

std::string Explanation::text() const {
  std::string out = fmt::format("{} on {}: {} programs, {}\n", kernel, target, programs, config);
  out += fmt::format("predicted {:.4g} us: {}\n", predicted_us, bound_text);
  out += fmt::format("  memory alone {:.4g} us, instructions {:.4g} us, waits {:.4g} us\n", memory_us, compute_us,
                     latency_us);
  if (measured_us)
    out += fmt::format("measured {:.4g} us, {:.0f} GB/s{}{}\n", *measured_us,
                       double(from_memory + to_memory) / *measured_us / 1e3, why_measured_differs.empty() ? "" : "; ",
                       why_measured_differs);
  add_traffic(out, *this);
  add_work(out, *this);
  add_resources(out, *this);
  add_accesses(out, *this);
  return out;
}

std::string Explanation::json() const {
  JsonObject o;
  o.add("kernel", kernel).add("config", config).add("target", target).add("programs", programs);
  o.add("counted_programs", counted_programs).add("read", read).add("written", written);
  o.add("from_memory", from_memory).add("to_memory", to_memory);
  o.add("useful_read", useful_read).add("useful_written", useful_written);
  o.raw("arrays", list(arrays, [](const Array& a) { return json_of(a); }));
  o.raw("accesses", list(accesses, [](const Access& a) { return json_of(a); }));
  o.raw("assumptions", list(assumptions, quoted));
  o.raw("units", list(units, [](const Unit& u) { return json_of(u); }));
  o.add("instructions", instructions).add("special_instructions", special_instructions);
  o.add("threads", threads).add("registers", registers).add("registers_estimated", registers_estimated);
  o.raw("spill_bytes", spill_bytes < 0 ? "null" : fmt::format("{}", spill_bytes)).add("shared_bytes", shared_bytes);
  o.add("programs_per_sm", programs_per_sm).add("occupancy", occupancy).add("occupancy_limit", occupancy_limit);
  o.add("waves", waves).raw("bank_conflicts", list(bank_conflicts, quoted)).add("shared_accesses", shared_accesses);
  o.raw("loops", list(loops, [](const Loop& l) { return json_of(l); }));
  o.add("bound", bound).add("bound_text", bound_text).add("predicted_us", predicted_us);
  o.add("memory_us", memory_us).add("compute_us", compute_us).add("latency_us", latency_us).add("bandwidth", bandwidth);
  o.raw("measured_us", measured_us ? fmt::format("{}", *measured_us) : "null");
  o.add("why_measured_differs", why_measured_differs);
  return o.text();
}

std::string Explanation::roofline_svg() const {
  const auto [low, high] = [&] {
    double least = 0.1, most = 1000;
    for (const Unit& u : units) {
      if (u.intensity > 0) least = std::min(least, u.intensity);
      most = std::max({most, u.ridge * 2, u.intensity * 2});
    }
    return std::pair(std::floor(std::log10(least)), std::ceil(std::log10(most)));
  }();
  double top = bandwidth;
  for (const Unit& u : units) top = std::max(top, u.peak);
  const double y0 = std::floor(std::log10(bandwidth / 1e9) + low), y1 = std::ceil(std::log10(top / 1e9));
  LogPlot plot(low, high, y0, y1);
  plot.title(fmt::format("{} on {}: {} bound", kernel, target, bound));
  plot.axes("operations a byte from or to memory", "10^9 operations a second");
  constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73"};
  const double us = measured_us ? *measured_us : predicted_us;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit& u = units[i];
    const char* colour = kColours[i % std::size(kColours)];
    const double left = std::max(std::pow(10, low), std::pow(10, y0) / (bandwidth / 1e9));
    plot.line(left, left * bandwidth / 1e9, u.ridge, u.peak / 1e9, "#888888", 2);
    plot.line(u.ridge, u.peak / 1e9, std::pow(10, high), u.peak / 1e9, colour, 2);
    plot.label(std::pow(10, high), u.peak / 1e9, u.name);
    if (u.intensity > 0 && us > 0 && std::isfinite(us))
      plot.point(u.intensity, std::max(std::pow(10, y0), u.operations / us / 1e3), colour,
                 measured_us ? "measured" : "predicted");
  }
  return plot.svg();
}

std::string detail::json_of_failure(const std::string& kernel, const std::string& error) {
  return JsonObject().add("kernel", kernel).add("error", error).text();
}

std::string FusionAdvice::text() const {
  std::string out = "should these kernels be one?\n";
  for (const Rule& r : rules)
    out += fmt::format("  {}. {:<46} {:<3}  {}\n", r.number, r.question, r.speaks_for_fusion ? "yes" : "no", r.figures);
  return out + verdict + "\n";
}

std::string FusionAdvice::json() const {
  JsonObject o;
  o.add("fuse", fuse).add("verdict", verdict).add("separate_bytes", separate_bytes).add("fused_bytes", fused_bytes);
  o.raw("rules", list(rules, [](const Rule& r) {
          return JsonObject()
              .add("number", r.number)
              .add("question", r.question)
              .add("speaks_for_fusion", r.speaks_for_fusion)
              .add("figures", r.figures)
              .text();
        }));
  return o.text();
}

}  // namespace tegula
