#include "cli/verbs/convert.h"

#include "cli/option_kinds.h"
#include "cli/verb_app.h"

namespace ds {

void describe_convert(VerbApp& app, ConvertArgs& values) {
  app.add_option(
         "source", values.source,
         "A run of dslaunch or one of its checkpoints, a checkpoint of DeepSpeed (its folder, "
         "or one that holds some), a file of PyTorch or of a GPT-2 of llm.c, or a folder with "
         "safetensors or pytorch_model.bin, or with adapters, which are merged")
      ->type_name("SRC")
      ->required();
  add_destination(app, values.destination);
  app.add_option(
         "--to", values.to,
         "hf: a Hugging Face folder with config.json and safetensors; bin: the same with "
         "pytorch_model.bin; universal: a checkpoint that DeepSpeed goes on from, with moments and "
         "steps")
      ->check(choice_check({"hf", "bin", "universal"}))
      ->type_name("KIND")
      ->capture_default_str();
  app.add_option("--tag", values.tag,
                 "Which checkpoint of SRC (default: what the file latest names)")
      ->type_name("NAME");
  app.add_option(
         "--config", values.config,
         "The folder whose config.json says what model it is (default: what a checkpoint of "
         "dslaunch says, else SRC and those it lies in)")
      ->type_name("FOLDER");
  add_base(app, values.base);
  app.add_option("--map", values.name_map,
                 "Rules for names of tensors, a line each: PATTERN => NAME")
      ->type_name("FILE");
  add_dtype(app, values.dtype, "Of the weights that are written: fp32, bf16, fp16")
      ->capture_default_str();
  app.add_flag("--json", values.json, "Print one JSON object");
  app.footer(
      "Nothing of SRC is executed. Weights are the fp32 masters where SRC has them. A pattern of "
      "--map is a regular\n"
      "expression for the whole name, NAME may have $1 for its groups, and nothing behind the "
      "arrow leaves the tensor\n"
      "out; the first rule that matches counts. Wrappers' names (module., _orig_mod.) go by "
      "themselves.\n"
      "\n"
      "Examples:\n"
      "  dslaunch convert ds_out gpt2_trained\n"
      "  dslaunch convert ds_out gpt2_step3 --tag global_step3 --config path/to/model --dtype "
      "bf16\n"
      "  dslaunch convert old_folder new_folder --map names.txt --json\n"
      "  dslaunch convert runs/latest for_deepspeed --to universal\n"
      "  dslaunch convert log124M/model_00019560.bin gpt2_of_llmc");
}

}  // namespace ds
