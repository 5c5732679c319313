#include "launcher/report/gpu_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>
#include <vector>

#include "launcher/report/progress.h"

namespace ds {
namespace {

// Those that end jobs.
constexpr std::array<std::pair<int64_t, const char*>, 14> kXids{{
    {13, "a kernel did what it may not"},
    {31, "a kernel touched memory that is not there"},
    {43, "a kernel hung and was stopped"},
    {45, "its work was cleaned up after another error"},
    {48, "an error of its memory that ECC could not correct"},
    {61, "its firmware stopped"},
    {62, "its firmware stopped"},
    {63, "a bad row of its memory was taken out of use"},
    {64, "a bad row of its memory could not be taken out of use"},
    {74, "an NVLink failed"},
    {79, "it has fallen off the bus"},
    {94, "an error of its memory that was contained"},
    {95, "an error of its memory that was not contained"},
    {119, "its system processor does not answer"},
}};

std::vector<std::string> figure_words(const GpuFigures& figures) {
  std::vector<std::string> words;
  if (figures.memory_used && figures.memory_total) {
    words.push_back(fmt::format("{} of {}", format_bytes(*figures.memory_used),
                                format_bytes(*figures.memory_total)));
  }
  if (figures.utilization) words.push_back(fmt::format("{} % busy", *figures.utilization));
  if (figures.temperature) words.push_back(fmt::format("{} degrees C", *figures.temperature));
  return words;
}

}  // namespace

std::string gpu_name(const GpuState& gpu) {
  return gpu.name.empty() ? fmt::format("GPU {}", gpu.index)
                          : fmt::format("GPU {} ({})", gpu.index, gpu.name);
}

std::string gpu_figures_text(const GpuFigures& figures) {
  return fmt::format("{}", fmt::join(figure_words(figures), ", "));
}

std::string gpu_last_words(const GpuState& gpu) {
  if (!gpu.problem.empty()) return fmt::format("{}: {}", gpu_name(gpu), gpu.problem);
  std::vector<std::string> words = figure_words(gpu.figures);
  if (gpu.figures.sm_clock) words.push_back(fmt::format("{} MHz", *gpu.figures.sm_clock));
  if (gpu.figures.power) words.push_back(fmt::format("{} W", *gpu.figures.power / 1000));
  if (gpu.figures.last_xid) words.push_back(xid_text(*gpu.figures.last_xid));
  return fmt::format("{}{}{}", gpu_name(gpu), words.empty() ? "" : ": ", fmt::join(words, ", "));
}

std::string xid_text(int64_t xid) {
  for (const auto& [number, words] : kXids) {
    if (number == xid) return fmt::format("Xid {} ({})", xid, words);
  }
  return fmt::format("Xid {}", xid);
}

}  // namespace ds
