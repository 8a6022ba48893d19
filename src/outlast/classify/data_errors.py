"""Malformed input: class names and texts of parsers, archives, images, spreadsheets, PDFs, columnar files, serialisers."""

_KINDS = (
    r"7z|zip|rar|tar|gzip|bzip2|xz|lzma|zstd|lz4|parquet|arrow|feather|orc|avro|hdf5?|netcdf|sqlite|excel|xlsx?|xlsb|ods|docx?|"
    r"pptx?|odf|pdf|png|jpe?g|gif|tiff?|webp|bmp|svg|wav|mp3|flac|ogg|mp4|json|xml|yaml|toml|csv|html|zarr|numpy|npy|pickle|"
    r"shapefile|geojson|wkt|wkb|epub|ttf|iso|protobuf|msgpack|cbor|bson|thrift|ini"
)
_NOUNS = r"file|archive|image|document|header|stream|workbook|record|message|block|chunk|footer|frame|data|input"

CLASS_NAMES = (
    r"(?:Parse|Parser|Parsing|Decode|Decoder|Decoding|Deseriali[sz]\w*|Malformed\w*|Schema|Scanner|Lexer|Tokeni[sz]\w*|Composer|"
    r"Constructor|Unpack\w*|Unpickling|Unmarshal\w*|(?:De|Un)compress\w*|Format|Codec|Charset|Conversion|Coercion|Compute|Shape|"
    r"NoData|EmptyData|EmptyFile|FileData|PdfRead|PdfStream|XLRD|CompDoc|YAML|Yaml|TOML|Toml|LZMA|LZ4\w*|Zstd|Snappy|Brotli|"
    r"Avro\w*|Parquet|Image\w*Format|DecompressionBomb|GEOS|WKT\w*|WKB\w*|Exif|Truncated\w*|Checksum\w*|CRC)(?:Error|Exception|Failure)|"
    r"Malformed(?:Response|Answer|Data)|(?:Bad|Invalid|Corrupt(?:ed)?|Broken|NotA?|Empty|Unidentified)"
    r"(?:7z|Zip|Rar|Tar|Gzip|Xz|Archive|File|Image|PDF|Pdf|Document|Json|JSON|Xml|XML|Yaml|Csv|Format|Data|Bson|Header|Footer|Record|"
    r"Response)\w*|Invalid\w+(?:Encoding|Format)|ExtraData|Corrupt(?:ed|ion)?\w*|(?:PDF|XML)SyntaxError|PSEOF|PSSyntaxError|"
    r"(?:Delimiter|Footer|Header|Magic|Marker)NotFound\w*|OutOfBounds\w*|(?:Arrow|Multiple)Invalid|Unidentified\w+|OutOfData|JSONDecode\w*|^Data(?:Error|Exception)$"
)
"""Pattern of class names that mean malformed input."""

DATA_TEXTS: dict[str, str] = {
    "corrupt damaged garbled malformed truncated": rf"\b(?:corrupt(?:ed)?|truncated|damaged|malformed|garbled)(?: or \w+)? (?:\w+ )?(?:{_NOUNS}|{_KINDS})\b",
    "corrupt damaged incomplete malformed truncated": rf"\b(?:{_NOUNS}|{_KINDS}) (?:is|are|seems to be|appears to be|may be) (?:corrupt(?:ed)?|truncated|damaged|malformed|incomplete)\b",
    "archive data document file format image input object stream string workbook": rf"\bnot (?:an? (?:valid )?|valid )(?:\w+ )?(?:{_KINDS}|image|audio|database) (?:file|archive|document|image|format|data|stream|input|object|string|workbook)\b",
    "magic signature header directory marker xref record tag element": (
        r"\b(?:magic (?:bytes?|number)|file (?:signature|header)|central directory|eof marker|startxref|xref table|bof record|start tag|root element)"
        r"\b[\w ,'<>()-]{0,30}\b(?:not found|missing|mismatch|invalid|incorrect|wrong|expected)\b"
    ),
    "expected magic": r"\b(?:bad|invalid|wrong|unknown|incorrect) magic\b|\bexpected (?:bof record|\d+ (?:columns|fields))\b",
    "parse parsing decode decoding syntax scan format tokenizing": rf"\b(?:{_KINDS}) (?:parse|parsing|decode|decoding|syntax|scan|format) (?:error|exception)\b|\bparse ?(?:exception|error)\b|\berror tokenizing data\b",
    "invalid": rf"\binvalid (?:\w+ )?(?:{_KINDS})(?: (?:content|data|document|file|syntax|format))?(?![\w-]| (?:code|id|name|key|type|schema|path|url|option|parameter|argument))",
    "decod decompress deseriali inflat uncompress unmarshal unpack unpickl": r"(?<!alert )\b(?:decod|decompress|inflat|uncompress|unpack|deseriali[sz]|unpickl|unmarshal)\w*\b[\w :]{0,20}\b(?:failed|failure|error)\b",
    "decompress deseriali inflat uncompress unmarshal unpack unpickl": r"\b(?:failed|unable|could not|cannot|error|can't)(?: to| while| when)? (?:decompress|inflat|uncompress|deseriali[sz]|unpickl|unmarshal|unpack)\w*",
    "lz4 zstd brotli snappy lzma bzip2 zlib gzip": r"(?<![\w.])(?:lz4f?|zstd|brotli|snappy|lzma|bzip2|zlib|gzip)\w*\b[\w :()-]{0,40}\b(?:error|failed|failure|invalid|corrupt\w*|unknown)\b",
    "identify invalid supported unknown recogni broken": (
        r"\b(?:unsupported|unknown|unrecogni[sz]ed|invalid) (?:file|image|audio|archive|data|document) (?:format|type)\b|\bunsupported format, or\b|"
        r"\bcannot identify image\b|\bfile; not supported\b|\bformat (?:is )?not (?:recogni[sz]ed|supported by)\b|"
        r"\bnot recogni[sz]ed as (?:being in )?an? (?:supported|valid) (?:\w+ )?format\b|"
        r"\bbroken data stream\b"
    ),
    "extra premature trailing unexpected": r"\b(?:unexpected|premature) end of (?:document|archive|string|compressed data|image data)\b|\bextra data(?=[:.]| after| found| at)|\btrailing (?:data|garbage|characters)\b",
    "archive conversion convert value": r"\bconversion failed when converting\b|\btried to convert to\b|\bvalue \S+ not in range\b|\bno item named .{1,200} in the archive\b",
    "empty bytes columns element": (
        r"\b(?:file|document|archive) (?:is empty|size is 0 bytes)\b|\bempty (?:csv|xml|json|pdf) (?:file|document|data)\b|\bcannot read an empty file\b|"
        r"\bno columns to parse\b|\bno (?:element|root element) found\b"
    ),
    "decrypted encrypted password": r"\b(?:file|document|archive|pdf|workbook)(?: '[^']{1,80}')? (?:is|has not been) (?:password[- ]protected|encrypted|decrypted)\b|\bbad password for (?:file|archive)\b",
    "crc checksum": r"\b(?:bad |incorrect )crc\b|\bcrc(?:32)? (?:check )?(?:error|failed|mismatch)\b|\bchecksum (?:does not|did not|doesn't) match\b",
    "constructor element exceeds header": r"\bexceeds max_(?:\w+)_(?:len|size)\b|\b(?:could not|unable to|cannot|can't) (?:determine a constructor|find a root element|read the header(?! file))\b",
    "schema field padding": r"\bdoes not (?:conform to|match) (?:the )?(?:\w+ )?schema\b|\bis not valid under any of the given schemas\b|\bis required on field \w+|\bincorrect padding\b|\bschema mismatch\b",
}
"""Lowercase texts that mean malformed input; a text that matches has one of the words before the pattern."""
