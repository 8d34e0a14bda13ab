// Line plots: what is in the file, and where.
#include "tools/svg_plot.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace tegula {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

TEST(SvgPlot, SeriesAxesAndLegend) {
  const std::string svg = svg_plot({.title = "a < b & c", .x_label = "columns", .y_label = "GB/s", .log_x = true},
                                   {{"fused", {{256, 1000}, {1024, 2000}, {4096, 4000}}},
                                    {"copy", {{256, 4100}, {4096, 4100}}, true},
                                    {"none", {}}});
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 5u);
  EXPECT_EQ(count(svg, "stroke-dasharray"), 2u) << "the dashed line and its legend";
  for (const char* text : {">a &lt; b &amp; c<", ">columns<", ">GB/s<", ">fused<", ">copy<", ">256<", ">512<", ">4096<",
                           ">0<", ">1000<", ">5000<"})
    EXPECT_NE(svg.find(text), std::string::npos) << text << "\n" << svg;
  EXPECT_EQ(svg.find(">none<"), std::string::npos);
  // Powers of two at equal distances; y downwards from the top.
  std::smatch m;
  ASSERT_TRUE(
      std::regex_search(svg, m, std::regex(R"re(points="([\d.]+),([\d.]+) ([\d.]+),([\d.]+) ([\d.]+),([\d.]+) ")re")));
  auto at = [&](int i) { return std::stod(m[i]); };
  EXPECT_NEAR(at(3) - at(1), at(5) - at(3), 0.2);
  EXPECT_NEAR((at(2) - at(4)) * 2, at(4) - at(6), 0.3);
}

TEST(SvgPlot, NothingToShow) {
  const std::string svg = svg_plot({.title = "empty"}, {});
  EXPECT_EQ(svg.find("nan"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("inf"), std::string::npos) << svg;
  EXPECT_EQ(count(svg_plot({}, {{"point", {{3, 0}}}}), "<circle"), 1u);
}

TEST(SvgPlot, SaysWhenItCannotBeWritten) {
  try {
    write_svg_plot("/nonexistent/plot.svg", {}, {});
    FAIL() << "nothing was thrown";
  } catch (const FileError& error) {
    EXPECT_STREQ(error.what(), "cannot write the plot '/nonexistent/plot.svg'");
  }
}

}  // namespace
}  // namespace tegula
