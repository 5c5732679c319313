#include "rankd/verbs/weights/inspect.h"

#include <filesystem>

#include "core/files/input_files.h"
#include "rankd/verbs/terminal/input_texts.h"
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
    print_now(to_json(contents_json(contents)));
  } else {
    print_now(contents_text(contents));
  }
  return 0;
}

}  // namespace ds
