#include "rankd/verbs/weights/inspect.h"

#include <filesystem>

#include "cli/text/terminal_text.h"
#include "core/files/input_files.h"
#include "rankd/verbs/weights/contents.h"

namespace ds {

int run_inspect(const InspectArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
  if (std::filesystem::is_directory(args.file)) {
    throw UsageError(fmt::format("{}: is a folder; name a file in it", args.file));
  }
  const FileContents contents = args.file.ends_with(".safetensors")
                                    ? contents_of(SafetensorsFile::open(files, args.file))
                                    : contents_of(TorchFile::open(args.file));
  if (args.json) {
    say("{}", to_json(contents_json(contents)));
  } else {
    say("{}", contents_text(contents));
  }
  return 0;
}

}  // namespace ds
