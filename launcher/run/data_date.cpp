#include "launcher/run/data_date.h"

#include "config/load.h"
#include "core/status/error.h"
#include "core/text/date.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

// Nothing for what another release wrote, or a stranger.
std::optional<Config> config_in(const std::string& text) {
  try {
    return parse_config(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string with_date(const std::string& canonical, const std::optional<std::string>& before,
                      std::string_view today) {
  std::optional<Config> config = config_in(canonical);
  if (!config) return canonical;
  SupervisedData& data = config->data.supervised;
  if (data.date || !data.writes_chats()) return canonical;
  if (before) {
    if (const std::optional<Config> past = config_in(*before))
      data.date = past->data.supervised.date;
  }
  if (!data.date) data.date = today;
  return to_config_text(*config);
}

std::string dated(const std::string& canonical, const std::filesystem::path& run_directory,
                  std::time_t now) {
  constexpr size_t kLargest = size_t{16} << 20;
  std::optional<std::string> before;
  try {
    before = read_input_file_if_there(run_directory / "config.json", kLargest);
  } catch (const Error&) {  // what stands there is no file, and will be replaced
  }
  return with_date(canonical, before, date_of(now));
}

}  // namespace ds
