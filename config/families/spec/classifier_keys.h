// The keys of a config.json that say which classes a model scores: num_labels, id2label, label2id,
// problem_type and classifier_dropout.
#pragma once

#include <rapidjson/document.h>

#include "config/families/spec/classifier.h"
#include "config/families/spec/hf_object.h"

namespace ds {

class Value;

// transformers' two classes LABEL_0 and LABEL_1 if the keys are silent. DataError for names that
// are not numbered from 0 on, Unsupported for another problem, and for one class that all texts or
// tokens are of.
Classifier read_classifier(const HfObject& object, ClassifierTask task);

// A head of these classes that begins anew, in a model that has another.
Classifier fresh_classifier(const HfObject& object, const std::vector<std::string>& labels,
                            ClassifierTask task, ClassifierProblem problem);

void set_classifier(Value& object, const Classifier& classifier);
void set_classifier(rapidjson::Document& object, const Classifier& classifier);

}  // namespace ds
