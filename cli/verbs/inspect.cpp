#include "cli/verbs/inspect.h"

#include "cli/verb_app.h"

namespace ds {

void describe_inspect(VerbApp& app, InspectArgs& values) {
  app.add_option("file", values.file, "A file of weights or of a checkpoint")
      ->type_name("FILE")
      ->required();
  app.add_flag("--json", values.json, "One object: format, tensors and other values");
  app.footer(
      "Tells names, types, shapes and bytes of all tensors, and the values beside them, of\n"
      "*.safetensors and of what torch.save writes (*.pt, *.bin, *.ckpt, DeepSpeed's "
      "*_states.pt).\n"
      "Nothing of a file is run: classes that it names are shown, and functions refused.\n"
      "\n"
      "Examples:\n"
      "  dslaunch inspect path/to/huggingface/folder/model.safetensors\n"
      "  dslaunch inspect checkpoint.pt\n"
      "  dslaunch inspect checkpoint.pt --json");
}

}  // namespace ds
