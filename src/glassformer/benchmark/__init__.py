"""Speed of a model beside other systems that can run it."""
