// report.html (pure): one page about a run, which needs nothing beside itself: curves, where the
// time went, how ranks compare, restarts, and what was planned beside what was measured.
#pragma once

#include <string>
#include <string_view>

namespace ds {

// Texts of files of the run directory; empty where there are none yet.
struct RunFiles {
  std::string name{};     // of the run, for people
  std::string metrics{};  // metrics.jsonl
  std::string report{};   // report.json
  std::string plan{};     // plan.json
};
// DataError where a text is not what its name says.
std::string report_page(const RunFiles& files);

}  // namespace ds
