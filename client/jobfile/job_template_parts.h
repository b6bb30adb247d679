#pragma once

#include <span>
#include <string>
#include <vector>

// The texts from which JobTemplate (job_template.h) puts a job file together.
namespace ampd::client {

// The facts about a data set of images that a model depends on. If `channels` is 0, the data are not images.
struct ImageFacts {
  int channels = 0;
  int size = 0;  // height and width, in pixels
  int classes = 0;
};

// A kind of data, with the texts of its sections in data.train and data.eval. In them, MAPPING stands for the fields
// that map pixels to numbers.
struct DataPart {
  const char* name = "";
  ImageFacts images = {};
  const char* train = "";
  const char* eval = "";
};

// A model, and how it is usually trained. In `text`, CHANNELS, SIZE, CLASSES and FEATURES stand for numbers that depend
// on the data.
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
