// The date that chat templates write into a run's texts (data.date): where the configuration has
// none it is that of the day on which the run began, so that it has the same texts however often it
// is restarted.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

// The canonical text with a date, if its texts may have one: that which it says, or that of the
// configuration of the run's launch before, or today. What is no configuration stays as it is
// (pure).
std::string with_date(const std::string& canonical, const std::optional<std::string>& before,
                      std::string_view today);

// The same of a launch in that run directory at that time.
std::string dated(const std::string& canonical, const std::filesystem::path& run_directory,
                  std::time_t now);

}  // namespace ds
