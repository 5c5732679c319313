#include "tests/support/golden.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/support/catch.h"

namespace ds::testing {
namespace {

struct Block {
  std::string comment;  // comments and blank lines before it, verbatim
  std::string command;
  std::string expected;
  int line = 0;  // of the command
};

std::vector<Block> parse(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    FAIL("golden file " << path << " cannot be opened");
  }
  std::vector<Block> blocks;
  Block block;
  enum class Part { kBetween, kCommand, kExpected } part = Part::kBetween;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (part == Part::kBetween && (line.empty() || line.starts_with('#'))) {
      block.comment.append(line).push_back('\n');
    } else if (part == Part::kExpected && line.empty()) {
      blocks.push_back(std::exchange(block, {}));
      block.comment.assign(1, '\n');
      part = Part::kBetween;
    } else if (part == Part::kExpected) {
      block.expected.append(line).push_back('\n');
    } else if (line == "----") {
      part = Part::kExpected;
    } else {
      block.line = part == Part::kBetween ? number : block.line;
      block.command.append(line).push_back('\n');
      part = Part::kCommand;
    }
  }
  if (part == Part::kCommand) {
    FAIL(path << ": the last command has no ---- line");
  }
  if (part == Part::kExpected) {
    blocks.push_back(block);
  }
  return blocks;
}

std::string in_golden_form(const std::string& answer) {
  std::istringstream in(answer);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    out.append(line.empty() ? "." : line).push_back('\n');
  }
  return out;
}

}  // namespace

std::string source_directory() {
  const char* const elsewhere = std::getenv("DS_SOURCE_DIR");
  return elsewhere != nullptr ? elsewhere : DS_SOURCE_DIR;
}

void run_golden(const std::string& name,
                const std::function<std::string(const std::string& command)>& answer) {
  const std::string path = fmt::format("{}/tests/golden/{}", source_directory(), name);
  const char* const rewrite = std::getenv("DS_REWRITE_GOLDEN");
  std::string rewritten;
  for (const Block& block : parse(path)) {
    const std::string got = in_golden_form(answer(block.command));
    rewritten += block.comment + block.command + "----\n" + got;
    if (rewrite == nullptr) {
      INFO(path << ":" << block.line << ": " << block.command);
      CHECK(got == block.expected);
    }
  }
  if (rewrite != nullptr) {
    std::ofstream(path) << rewritten;
  }
}

}  // namespace ds::testing
