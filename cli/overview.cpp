#include "cli/overview.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/verb.h"

namespace ds {
namespace {

constexpr const char* kHead =
    "dslaunch trains neural networks from one DeepSpeed JSON file.\n"
    "\n"
    "Usage: dslaunch [run] train.json [key.path=value ...] [options]\n"
    "       dslaunch VERB ...\n"
    "\n"
    "Verbs (each has --help with examples):\n";

constexpr const char* kTail =
    "\n"
    "Options:\n"
    "  --help, --version\n"
    "\n"
    "First steps:\n"
    "  dslaunch examples/kjv/train.json\n"
    "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
    "  dslaunch status runs/latest\n"
    "  dslaunch run --help\n";

}  // namespace

std::string overview() {
  size_t widest = 0;
  for (const Verb& verb : verbs()) widest = std::max(widest, verb.name.size());
  std::string text = kHead;
  for (const Verb& verb : verbs()) {
    if (verb.listing == Listing::kListed)
      text += fmt::format("  {:<{}}  {}\n", verb.name, widest, verb.summary);
  }
  return text + kTail;
}

}  // namespace ds
