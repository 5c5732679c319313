#include "rankd/verbs/inspect/inspect.h"

#include "cli/text/terminal_text.h"
#include "core/files/input_files.h"
#include "rankd/verbs/inspect/contents.h"

namespace ds {

int run_inspect(const InspectArgs& args) {
  RealFileSystem real;
  InputFiles files(real);
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
