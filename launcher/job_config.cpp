#include "launcher/job_config.h"

#include <fstream>
#include <sstream>

#include "core/error.h"
#include "launcher/credentials.h"

namespace ds {

JobConfig load_job_config(const std::filesystem::path& path,
                          const std::vector<std::string>& overrides) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    throw InputMissing(fmt::format("{}: cannot be read", path.string()));
  }
  if (!overrides.empty()) {
    throw Unsupported(fmt::format("override '{}': not in this build", overrides.front()));
  }
  JobConfig config;
  config.directory = std::filesystem::absolute(path).parent_path();
  config.stem = path.stem().string();
  config.canonical_text = text.str();
  config.digest = sha256_hex(config.canonical_text);
  return config;
}

}  // namespace ds
