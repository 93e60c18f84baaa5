# The fuzz targets: fuzz_NAME.c, corpus/NAME, and the libraries that hold the parser.
# b2_fuzz() is what CMakeLists.txt or replay.cmake makes of a row.
b2_fuzz(opt b2_base)
b2_fuzz(gguf b2_format)
b2_fuzz(safetensors b2_format)
b2_fuzz(hf_config b2_format)
b2_fuzz(tokenizer_json b2_model)
b2_fuzz(tok_text b2_text)
b2_fuzz(jinja b2_text)
b2_fuzz(table b2_eval)
b2_fuzz(task_desc b2_eval)
b2_fuzz(teacher b2_eval)
b2_fuzz(page b2_eval)
b2_fuzz(sensitivity b2_compress)
