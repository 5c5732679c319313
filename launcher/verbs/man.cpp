#include "launcher/verbs/man.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>

#include "cli/manual.h"
#include "cli/text/terminal_text.h"
#include "cli/typing.h"
#include "core/status/error.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/files/run_directory.h"
#include "proto/build_info.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

struct Page {
  std::string name;  // of its file
  std::string text;
};

std::vector<Page> all_pages() {
  const std::string version = build_info().version;
  const std::vector<VerbOutline> verbs = outlines();
  std::vector<Page> pages{{"dslaunch.1", manual_page(verbs, version)}};
  for (const VerbOutline& verb : verbs) {
    pages.push_back({fmt::format("dslaunch-{}.1", verb.name), manual_page(verb, version)});
  }
  return pages;
}

void write_pages(const fs::path& folder, const std::vector<Page>& pages) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(fmt::format("creating {}: {}", folder.string(), error.message()));
  for (const Page& page : pages) write_whole_file(folder / page.name, page.text);
}

std::string as_json(const std::vector<Page>& pages) {
  std::vector<std::string> texts;
  for (const Page& page : pages)
    texts.push_back(JsonObject().text("name", page.name).text("text", page.text).str());
  return JsonObject().raw("pages", fmt::format("[{}]", fmt::join(texts, ", "))).str();
}

}  // namespace

int run_man(const ManOptions& options) {
  std::vector<Page> pages = all_pages();
  if (options.output) {
    write_pages(*options.output, pages);
  } else {
    const std::string name =
        options.page.empty() ? "dslaunch.1" : fmt::format("dslaunch-{}.1", options.page);
    std::erase_if(pages, [&](const Page& page) { return page.name != name; });
    if (pages.empty()) throw UsageError(unknown_verb(options.page));
  }
  if (options.json) {
    say("{}\n", as_json(pages));
  } else if (options.output) {
    say("{} pages in {}\n", pages.size(), *options.output);
  } else {
    say("{}", pages.front().text);
  }
  return 0;
}

}  // namespace ds
