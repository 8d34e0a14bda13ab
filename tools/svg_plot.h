// Line plots as SVG files, for tutorials and benchmarks.
//
//   write_svg_plot("softmax.svg", {.title = "Softmax", .x_label = "columns", .y_label = "GB/s", .log_x = true},
//                  {{"fused", {{256, 2100}, {512, 2900}}}, {"copy", {{256, 2500}, {512, 3300}}, true}});
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace tegula {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  ///< (x, y), in the order in which they are joined
  bool dashed = false;
};

struct PlotOptions {
  std::string title = {}, x_label = {}, y_label = {};
  bool log_x = false;  ///< powers of two at equal distances; all x must be positive
};

namespace detail {

inline std::string xml_text(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

/// 1, 2 or 5 times a power of ten, so that `range` has 4 to 10 of it.
inline double tick_step(double range) {
  const double power = std::pow(10, std::floor(std::log10(range / 5)));
  for (double step : {1.0, 2.0, 5.0})
    if (range / (step * power) <= 8) return step * power;
  return 10 * power;
}

}  // namespace detail

/// The plot as the text of an SVG file. The y axis begins at 0 and reaches beyond the largest value; series without
/// points are left out.
inline std::string svg_plot(const PlotOptions& options, const std::vector<PlotSeries>& series) {
  constexpr double kWidth = 760, kHeight = 440, kLeft = 72, kRight = 180, kTop = 44, kBottom = 56;
  constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
  const auto place = [&](double x) { return options.log_x ? std::log2(x) : x; };
  double low = INFINITY, high = -INFINITY, top = 0;
  for (const PlotSeries& s : series)
    for (auto [x, y] : s.points) low = std::min(low, place(x)), high = std::max(high, place(x)), top = std::max(top, y);
  if (!(low <= high)) low = 0, high = 1;
  if (low == high) low -= 0.5, high += 0.5;
  if (!(top > 0)) top = 1;
  const double y_step = detail::tick_step(top);
  top = y_step * std::ceil(top * 1.02 / y_step);
  const double plot_width = kWidth - kLeft - kRight, plot_height = kHeight - kTop - kBottom;
  const auto px = [&](double placed) { return kLeft + (placed - low) / (high - low) * plot_width; };
  const auto py = [&](double y) { return kTop + (1 - y / top) * plot_height; };

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  const auto text = [&](double x, double y, const char* anchor, const std::string& what, const char* more = "") {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                       detail::xml_text(what));
  };
  const auto line = [&](double x1, double y1, double x2, double y2, const char* style) {
    svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
  };
  text(kLeft, 24, "start", options.title, " font-size=\"15\" font-weight=\"bold\"");
  for (int i = 0; i * y_step <= top * 1.001; ++i) {
    line(kLeft, py(i * y_step), kLeft + plot_width, py(i * y_step), "stroke=\"#dddddd\"");
    text(kLeft - 8, py(i * y_step) + 4, "end", fmt::format("{:g}", i * y_step));
  }
  const double x_step = options.log_x ? std::max(1.0, std::ceil((high - low) / 10)) : detail::tick_step(high - low);
  for (double tick = std::ceil(low / x_step - 1e-9) * x_step; tick <= high + 1e-9 * x_step; tick += x_step) {
    line(px(tick), kTop + plot_height, px(tick), kTop + plot_height + 5, "stroke=\"black\"");
    text(px(tick), kTop + plot_height + 19, "middle", fmt::format("{:g}", options.log_x ? std::exp2(tick) : tick));
  }
  line(kLeft, kTop, kLeft, kTop + plot_height, "stroke=\"black\"");
  line(kLeft, kTop + plot_height, kLeft + plot_width, kTop + plot_height, "stroke=\"black\"");
  text(kLeft + plot_width / 2, kHeight - 14, "middle", options.x_label);
  text(0, 0, "middle", options.y_label,
       fmt::format(" transform=\"translate(18 {}) rotate(-90)\"", kTop + plot_height / 2).c_str());

  double legend = kTop + 8;
  for (size_t i = 0; i < series.size(); ++i) {
    const PlotSeries& s = series[i];
    if (s.points.empty()) continue;
    const std::string colour = kColours[i % std::size(kColours)];
    const std::string stroke =
        fmt::format("stroke=\"{}\" stroke-width=\"2\"{}", colour, s.dashed ? " stroke-dasharray=\"6 4\"" : "");
    svg += fmt::format("<polyline fill=\"none\" {} points=\"", stroke);
    for (auto [x, y] : s.points) svg += fmt::format("{:.1f},{:.1f} ", px(place(x)), py(y));
    svg += "\"/>\n";
    for (auto [x, y] : s.points)
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", px(place(x)), py(y), colour);
    line(kLeft + plot_width + 14, legend, kLeft + plot_width + 40, legend, stroke.c_str());
    text(kLeft + plot_width + 46, legend + 4, "start", s.name);
    legend += 20;
  }
  return svg + "</svg>\n";
}

/// Writes the plot to a file. Throws FileError if that cannot be written.
inline void write_svg_plot(const std::string& path, const PlotOptions& options, const std::vector<PlotSeries>& series) {
  std::ofstream out(path);
  out << svg_plot(options, series) << std::flush;
  if (!out) throw FileError(fmt::format("cannot write the plot '{}'", path));
}

}  // namespace tegula
