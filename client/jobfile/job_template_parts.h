#pragma once

#include <span>
#include <string>
#include <vector>

// The texts from which JobTemplate (job_template.h) puts a job file together.
namespace ampd::client {

// What a model of images needs to know of a data set. No channels: the data are no images.
struct ImageFacts {
  int channels = 0;
  int size = 0;  // height and width, in pixels
  int classes = 0;
};

// A kind of data: the member of data.train, and that of data.eval. MAPPING stands for the fields that map pixels.
struct DataPart {
  const char* name = "";
  ImageFacts images = {};
  const char* train = "";
  const char* eval = "";
};

// A model, and how it is usually trained. CHANNELS, SIZE, CLASSES and FEATURES stand for numbers of the data.
struct ModelPart {
  const char* name = "";
  const char* text = "";
  std::vector<std::string> data = {};  // kinds of data that it can be trained on; the usual one first
  const char* optimizer = "";
  int batch_size = 128;
  const char* sample = "";  // the section `sample`, if the model can generate samples
};

std::span<const DataPart> DataParts();
const std::vector<ModelPart>& ModelParts();

}  // namespace ampd::client
